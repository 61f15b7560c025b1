/* SPDX-License-Identifier: Apache-2.0 */
/* `hearth doctor`: findings about this machine, each with what to change. */
#ifndef HEARTH_TOOL_DOCTOR_H
#define HEARTH_TOOL_DOCTOR_H

#include <stddef.h>

enum doctor_level {
    DOCTOR_OK,   /* As it should be. */
    DOCTOR_NOTE, /* Good to know; changes figures, not behaviour. */
    DOCTOR_WARN, /* Hearth works worse than it could, or not as asked. */
};

#define DOCTOR_TEXT_BYTES 320u

struct doctor_finding {
    const char *name;
    enum doctor_level level;
    char value[DOCTOR_TEXT_BYTES];
    char advice[DOCTOR_TEXT_BYTES]; /* What to change, and why; empty when there is nothing to. */
};

/* Fills level, value and advice; they are OK and empty before. `root` as in system.h. */
typedef void doctor_check_fn(const char *root, struct doctor_finding *finding);

struct doctor_check {
    const char *name;
    doctor_check_fn *run;
};

/* Tables of checks, by what they look at. */
extern const struct doctor_check doctor_memory_checks[];
extern const size_t doctor_memory_check_count;
extern const struct doctor_check doctor_machine_checks[];
extern const size_t doctor_machine_check_count;
extern const struct doctor_check doctor_hearth_checks[];
extern const size_t doctor_hearth_check_count;

/** Set level and advice, printf-style; the value is left alone. */
__attribute__((format(printf, 3, 4))) void
doctor_advise(struct doctor_finding *finding, enum doctor_level level, const char *format, ...);

/** Set the value, printf-style. */
__attribute__((format(printf, 2, 3))) void doctor_say(struct doctor_finding *finding,
                                                      const char *format, ...);

#endif
