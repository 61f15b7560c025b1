/* SPDX-License-Identifier: Apache-2.0 */
/* The library itself: version, configuration, where its storage comes from. */
#include "doctor.h"
#include "replay_mallctl.h"

#include <hearth/backing.h>
#include <hearth/stats.h>
#include <hearth/version.h>

#include <stdlib.h>

static void check_version(const char *root, struct doctor_finding *finding)
{
    (void)root;
    doctor_say(finding, "%s", hearth_version_string());
    if (hearth_version() != HEARTH_VERSION_NUMBER) {
        doctor_advise(finding, DOCTOR_WARN,
                      "this program was compiled with the headers of %d.%d.%d: build it again",
                      HEARTH_VERSION_MAJOR, HEARTH_VERSION_MINOR, HEARTH_VERSION_PATCH);
    }
}

static void check_conf(const char *root, struct doctor_finding *finding)
{
    char message[DOCTOR_TEXT_BYTES / 2];
    (void)root;
    const char *text = getenv("HEARTH_CONF");
    if (text == NULL) {
        doctor_say(finding, "not set");
        return;
    }
    doctor_say(finding, "%s", text);
    if (hearth_conf_check(text, message, sizeof message) != HEARTH_OK) {
        doctor_advise(finding, DOCTOR_WARN, "no arena can be created with it: %s", message);
    }
}

static void check_backing(const char *root, struct doctor_finding *finding)
{
    struct hearth_backing *backing;
    (void)root;
    enum hearth_status status = hearth_backing_default(&backing);
    if (status != HEARTH_OK) {
        doctor_say(finding, "none (%s)", hearth_status_name(status));
        doctor_advise(finding, DOCTOR_WARN, "%s: see HEARTH_CONF above",
                      hearth_status_text(status));
        return;
    }
    doctor_say(finding, "%s", hearth_backing_name(backing));
}

/* Whether it is built in shows in whether a backing of it can be made; a shared one shows its own
 * name in the process, where a private copy is renamed. */
static void check_jemalloc(const char *root, struct doctor_finding *finding)
{
    struct hearth_backing *backing;
    (void)root;
    enum hearth_status status = hearth_backing_create_jemalloc(NULL, &backing);
    if (status == HEARTH_INVALID) {
        doctor_say(finding, "none");
        doctor_advise(
            finding, DOCTOR_NOTE,
            "storage comes from mmap, page by page: build with HEARTH_JEMALLOC=private for "
            "less slack in small buffers");
        return;
    }
    if (status != HEARTH_OK) {
        doctor_say(finding, "%s", hearth_status_name(status));
        doctor_advise(finding, DOCTOR_WARN, "its arena cannot be created: %s",
                      hearth_status_text(status));
        return;
    }
    hearth_backing_unref(backing);
    if (!replay_mallctl_present()) {
        doctor_say(finding, "private");
        return;
    }
    doctor_say(finding, "system");
    doctor_advise(
        finding, DOCTOR_NOTE,
        "this process's malloc is jemalloc too, and its MALLOC_CONF acts on both: build with "
        "HEARTH_JEMALLOC=private to keep them apart, and unset LD_PRELOAD");
}

const struct doctor_check doctor_hearth_checks[] = {
    {"hearth", check_version},
    {"HEARTH_CONF", check_conf},
    {"backing", check_backing},
    {"jemalloc", check_jemalloc},
};

const size_t doctor_hearth_check_count =
    sizeof doctor_hearth_checks / sizeof doctor_hearth_checks[0];
