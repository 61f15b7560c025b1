/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file runtime.h
 * Routing: tensors, plans, contexts and sessions. The kernel never decides where an output lives.
 *
 * Experimental until 1.0: names, structs and values of these headers may change in any version. They
 * are a library of their own, libhearth-runtime, which uses libhearth through its public headers.
 *
 * A plan is built once from nodes with named inputs and outputs and from the graph's declared
 * outputs. It knows, for every output slot of every node, whether the value stays inside (execution
 * role) or leaves (I/O role), and after which node a value dies. A context holds the values of one
 * run at a time. A session runs a plan on contexts, serially or on an executor.
 *
 *     value                         storage
 *     declared output               I/O arena, written in place, exported as a lease
 *     intermediate, workspace       execution arena of the thread that runs the node
 *     input, borrowed               the caller's; nothing is allocated
 *     input, staged                 I/O arena
 *     value of a body (subgraph)    a child execution arena; crosses by handle, or by take to the
 *                                   I/O arena: no copy
 *
 * Names are NUL-terminated UTF-8, copied when a plan is built; the empty name is an optional slot
 * that is not used. Payload copies made by the runtime are counted, each of them; there are five
 * causes: an input staged from the caller's bytes, a borrowed value that became an intermediate or
 * an output, an old-style kernel's output that `take` could not move, an output put from another
 * allocator than its role's that `take` could not move, and a finished tensor put into an output that
 * is bound to other storage. hearth_io_take() moves execution
 * storage to the I/O arena; in the other direction there is only the copy.
 *
 * A context, plan, session and service may be ended in any order: exported outputs stay valid.
 *
 * Thread: a plan is immutable and used by any number of threads. A context is used by one run or
 * one caller at a time. A session may run several contexts at the same time.
 */
#ifndef HEARTH_RUNTIME_H
#define HEARTH_RUNTIME_H

#include <hearth/context.h>
#include <hearth/events.h>
#include <hearth/executor.h>
#include <hearth/kernel.h>
#include <hearth/plan.h>
#include <hearth/session.h>
#include <hearth/tensor.h>

#endif
