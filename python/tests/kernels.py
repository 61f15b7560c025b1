# SPDX-License-Identifier: Apache-2.0
"""Kernels, plans and C code that the tests of runtimes share."""

import ctypes
import gc
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hearth


def square(node):
    (x,) = node.inputs
    np.multiply(x, x, out=node.output(0, x.shape, x.dtype))


def double(node):
    (x,) = node.inputs
    np.add(x, x, out=node.output(0, x.shape, x.dtype))


def add(node):
    a, b = node.inputs
    np.add(a, b, out=node.output(0, a.shape, a.dtype))


def identity(node):
    node.put(0, node.inputs[0])


def chain(kernel=square, then=double):
    """x -> t -> y."""
    plan = hearth.Plan(inputs=["x"], outputs=["y"])
    plan.add(kernel, ["x"], ["t"], name="first")
    plan.add(then, ["t"], ["y"], name="second")
    return plan


def one(kernel, inputs=("x",), outputs=("y",), name="only"):
    """A plan of one node."""
    plan = hearth.Plan(inputs=inputs, outputs=outputs)
    plan.add(kernel, inputs, outputs, name=name)
    return plan


def wide(width, kernel=square):
    """`width` nodes beside each other, and one that adds each to what came before it."""
    plan = hearth.Plan(inputs=["x"], outputs=["y"])
    for i in range(width):
        plan.add(kernel, ["x"], [f"t{i}"], name=f"wide {i}")
    last = "t0"
    for i in range(1, width):
        plan.add(add, [last, f"t{i}"], [f"s{i}" if i < width - 1 else "y"], name=f"sum {i}")
        last = f"s{i}"
    return plan


def address(array):
    return array.__array_interface__["data"][0]


def settle(arena):
    """What is out of an arena once garbage is gone."""
    gc.collect()
    return arena.live_count


C_SOURCE = r"""
#include <hearth/kernel.h>
#include <hearth/exec.h>
#include <stdatomic.h>
#include <string.h>

static void fill(const struct hearth_tensor *from, struct hearth_tensor *to)
{
    const float *x = hearth_tensor_data(from);
    float *y = hearth_tensor_data(to);
    for (size_t i = 0; i < hearth_tensor_size(from) / sizeof(float); i++)
        y[i] = 2 * x[i];
}

/* Twice the input; *user counts the calls. */
enum hearth_status twice(struct hearth_context *context, void *user)
{
    const struct hearth_tensor *x = hearth_context_input(context, 0);
    struct hearth_tensor *y;
    if (user != NULL)
        atomic_fetch_add((_Atomic(int) *)user, 1);
    enum hearth_status status = hearth_context_make_output(context, 0, hearth_tensor_dtype(x),
                                                           hearth_tensor_shape(x), &y);
    if (status == HEARTH_OK)
        fill(x, y);
    return status;
}

/* The same in the input's storage where that is allowed. */
enum hearth_status twice_in_place(struct hearth_context *context, void *user)
{
    const struct hearth_tensor *x = hearth_context_input(context, 0);
    struct hearth_shape shape = *hearth_tensor_shape(x);
    struct hearth_tensor *y;
    if (!hearth_context_can_reuse(context, 0, 0))
        return twice(context, user);
    enum hearth_status status = hearth_context_make_output_in_place(
        context, 0, 0, hearth_tensor_dtype(x), &shape, &y);
    if (status == HEARTH_OK)
        fill(y, y);
    return status;
}

/* An old kernel: its output is execution storage, whatever the plan wants, and it says so to nobody. */
enum hearth_status twice_misplaced(struct hearth_context *context, void *user)
{
    const struct hearth_tensor *x = hearth_context_input(context, 0);
    struct hearth_tensor *y;
    enum hearth_status status = twice(context, user);
    if (status != HEARTH_OK)
        return status;
    y = hearth_context_output(context, 0);
    (void)hearth_tensor_reset(y);
    status = hearth_tensor_make(hearth_context_execution_allocator(context), hearth_tensor_dtype(x),
                                hearth_tensor_shape(x), 0, y);
    if (status == HEARTH_OK)
        fill(x, y);
    return status;
}

/* Storage of the tensor's own, which no arena knows. */
enum hearth_status twice_inline(struct hearth_context *context, void *user)
{
    const struct hearth_tensor *x = hearth_context_input(context, 0);
    struct hearth_tensor y = HEARTH_TENSOR_INIT;
    (void)user;
    enum hearth_status status =
        hearth_tensor_make(NULL, hearth_tensor_dtype(x), hearth_tensor_shape(x), 0, &y);
    if (status != HEARTH_OK)
        return status;
    fill(x, &y);
    return hearth_context_put_output(context, 0, &y);
}

enum hearth_status refuse(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_TIMEOUT;
}

/* A type that leases do not offer. */
enum hearth_status odd(struct hearth_context *context, void *user)
{
    struct hearth_shape shape = {.dims = {4}, .rank = 1};
    struct hearth_tensor *y;
    (void)user;
    return hearth_context_make_output(context, 0, HEARTH_DTYPE_INT4, &shape, &y);
}
"""


def compile_c(folder, source=C_SOURCE):
    """A library of C kernels; the test is skipped where there is nothing to build it with."""
    package = Path(hearth.__file__).resolve().parent
    include = Path(__file__).resolve().parents[2] / "include"
    compiler = shutil.which("cc")
    if compiler is None or not (include / "hearth" / "kernel.h").exists():
        pytest.skip("no C compiler, or no headers of hearth beside the tests")
    code = folder / "kernels.c"
    library = folder / "libkernels.so"
    code.write_text(source)
    subprocess.run([compiler, "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}", code,
                    "-o", library, f"-L{package}", "-lhearth-runtime", "-lhearth", f"-Wl,-rpath,{package}"],
                   check=True)
    return ctypes.CDLL(str(library))


def c_kernel(library, name, user=None, **options):
    """A CKernel that keeps the library and the user's data."""
    function = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return hearth.CKernel(function, 0 if user is None else ctypes.addressof(user), keep=(library, user), **options)
