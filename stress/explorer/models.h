/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_STRESS_EXPLORER_MODELS_H
#define HEARTH_STRESS_EXPLORER_MODELS_H

#include "explorer.h"

extern const struct model model_litmus;
extern const struct model model_stack;
extern const struct model model_lists;
extern const struct model model_word;
extern const struct model model_detach;
extern const struct model model_visit;
extern const struct model model_exit;
extern const struct model model_close;
extern const struct model model_attach;
extern const struct model model_inbox;
extern const struct model model_waiters;

#endif
