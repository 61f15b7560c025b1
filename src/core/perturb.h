/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedule perturbation for stress builds: a yield now and then between the two steps of an EDGE, where
 * an interleaving that a quiet machine never shows would bite. Nothing in other builds.
 */
#ifndef HEARTH_CORE_PERTURB_H
#define HEARTH_CORE_PERTURB_H

#if defined(HEARTH_PERTURB) && HEARTH_PERTURB
/* Called with the label of the EDGE; yields or sleeps at random. */
void hearth__perturb(const char *edge);
#define HEARTH__PERTURB(edge) hearth__perturb(edge)
#else
#define HEARTH__PERTURB(edge) ((void)0)
#endif

#endif
