/* SPDX-License-Identifier: Apache-2.0 */
/* What life_plugin finds in plugin.c. Each answers 0 when it went well. */
#ifndef HEARTH_TESTS_LIFECYCLE_PLUGIN_H
#define HEARTH_TESTS_LIFECYCLE_PLUGIN_H

int plugin_open(void);
int plugin_work(void);
int plugin_close(void);

#endif
