/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that brings hearth into a program that does not know it. */
#include "plugin.h"

#include <hearth/service.h>

#include <string.h>

static struct hearth_service *service;

int plugin_open(void)
{
    return hearth_service_create(NULL, &service) != HEARTH_OK;
}

int plugin_work(void)
{
    struct hearth_exec *arena = NULL;
    struct hearth_buf *buf = NULL;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    if (hearth_service_exec(service, &arena) != HEARTH_OK ||
        hearth_exec_alloc(arena, 30000, &buf) != HEARTH_OK)
        return 1;
    memset(hearth_buf_data(buf), 7, 30000);
    if (hearth_exec_free(arena, buf) != HEARTH_OK ||
        hearth_io_lease(hearth_service_io(service), 100000, &lease) != HEARTH_OK)
        return 2;
    memset(hearth_lease_data(lease), 8, 100000);
    return hearth_lease_release(lease) == HEARTH_OK ? 0 : 3;
}

int plugin_close(void)
{
    int wrong = hearth_service_trim(service, HEARTH_UNBOUNDED, 0, NULL) != HEARTH_OK;
    hearth_service_unref(service);
    service = NULL;
    return wrong;
}
