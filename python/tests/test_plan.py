# SPDX-License-Identifier: Apache-2.0
"""Plans: what is accepted, what is refused and with which words, order and roles, garbage."""

import gc
import pickle
import weakref

import pytest

import hearth
from kernels import add, chain, double, one, square


def test_numbers_count_in_the_order_of_add():
    plan = hearth.Plan(["x"], ["y"])
    assert plan.add(double, ["t"], ["y"]) == 0
    assert plan.add(square, ["x"], ["t"]) == 1
    assert plan.order() == (1, 0)
    assert plan.inputs == ("x",) and plan.outputs == ("y",)


def test_roles():
    plan = hearth.Plan(["x"], ["y"])
    plan.add(square, ["x"], ["t", None, ""])
    plan.add(double, ["t"], ["y"])
    assert [plan.role(0, slot) for slot in range(3)] == ["execution", "none", "none"]
    assert plan.role(1, 0) == "io"
    with pytest.raises(hearth.InvalidError, match="no node 2"):
        plan.role(2, 0)
    with pytest.raises(hearth.InvalidError, match="no output slot 1"):
        plan.role(1, 1)


def test_names_are_copied():
    names, outputs = ["x"], ["y"]
    plan = hearth.Plan(names, ["y"])
    plan.add(square, names, outputs)
    names[0] = outputs[0] = "z"
    plan.build()
    assert plan.inputs == ("x",)


class Name(str):
    def __eq__(self, other):
        raise AssertionError("a name's own code is not called")

    __hash__ = str.__hash__


def test_subclasses_of_str_are_plain_names():
    plan = hearth.Plan([Name("x")], [Name("y")])
    plan.add(square, [Name("x")], [Name("y")])
    plan.build()
    assert type(plan.inputs[0]) is str


def test_names_may_be_anything_but_nul():
    plan = hearth.Plan(["ein wört"], ["出力"])
    plan.add(square, ["ein wört"], ["出力"], name="…")
    plan.build()
    with pytest.raises(hearth.InvalidError, match="NUL"):
        hearth.Plan(["a\0b"], ["y"])
    with pytest.raises(hearth.InvalidError, match="NUL"):
        plan = hearth.Plan(["x"], ["y"])
        plan.add(square, ["x"], ["y\0"])


@pytest.mark.parametrize("inputs, outputs", [(["x", "x"], ["y"]), (["x"], ["y", "y"]), ([""], ["y"]), (["x"], [""])])
def test_declared_names_are_distinct_and_not_empty(inputs, outputs):
    with pytest.raises(hearth.InvalidError, match="twice, or empty"):
        hearth.Plan(inputs, outputs)


@pytest.mark.parametrize("names", ["xy", [1], [None], 5, [b"x"]])
def test_names_are_strings_in_a_sequence(names):
    with pytest.raises(TypeError):
        hearth.Plan(names, ["y"])
    with pytest.raises(TypeError):
        hearth.Plan(["x"], names)


def test_a_kernel_is_callable():
    plan = hearth.Plan(["x"], ["y"])
    for kernel in (None, 5, "square"):
        with pytest.raises(TypeError, match="callable"):
            plan.add(kernel, ["x"], ["y"])
    with pytest.raises(TypeError):
        plan.add(square, "x", ["y"])
    with pytest.raises(TypeError):
        plan.add(square, ["x"], ["y"], name=5)
    assert plan.add(lambda node: None, ["x"], ["y"]) == 0


def refused(plan, *words):
    with pytest.raises(hearth.InvalidError) as caught:
        plan.build()
    for word in words:
        assert word in str(caught.value)
    assert caught.value.status == "INVALID"


def test_build_names_what_is_wrong():
    plan = hearth.Plan(["x"], ["y"])
    plan.add(add, ["x", "nowhere"], ["y"], name="joiner")
    refused(plan, "joiner", "nowhere")

    plan = hearth.Plan(["x"], ["y"])
    plan.add(square, ["x"], ["y"], name="one")
    plan.add(square, ["x"], ["y"], name="other")
    refused(plan, "y", "other")

    plan = hearth.Plan(["x"], ["y"])
    plan.add(square, ["x"], ["t"], name="one")
    refused(plan, "y")

    plan = hearth.Plan(["x"], ["y"])
    plan.add(add, ["x", "b"], ["a"], name="ring a")
    plan.add(square, ["a"], ["b"], name="ring b")
    plan.add(square, ["b"], ["y"])
    refused(plan, "ring")


def test_a_plan_that_was_refused_can_be_completed():
    plan = hearth.Plan(["x"], ["y"])
    plan.add(square, ["t"], ["y"])
    refused(plan, "t")
    plan.add(square, ["x"], ["t"])
    plan.build()
    plan.build()


def test_a_complete_plan_takes_no_more_nodes():
    plan = chain()
    hearth.Runtime(plan)
    with pytest.raises(hearth.InvalidError, match="complete"):
        plan.add(square, ["x"], ["z"])


def test_an_empty_plan_and_one_that_passes_an_input():
    hearth.Plan([], []).build()
    plan = hearth.Plan(["x"], ["x"])
    plan.build()
    assert plan.order() == ()


def test_representation():
    assert "2 nodes" in repr(chain())


def test_no_pickling():
    for thing in (chain(), hearth.CKernel(1), hearth.Runtime(chain())):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_types_are_final():
    for kind in (hearth.Plan, hearth.Node, hearth.CKernel, hearth.Runtime):
        with pytest.raises(TypeError):
            type("Other", (kind,), {})
    with pytest.raises(TypeError):
        hearth.Node()


class Holder:
    pass


def test_cycles_through_kernels_are_collected():
    holder = Holder()
    holder.plan = one(lambda node: holder)
    holder.runtime = hearth.Runtime(holder.plan)
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None


def test_a_kernel_lives_as_long_as_the_plan():
    def kernel(node):
        pass

    alive = weakref.ref(kernel)
    plan = one(kernel)
    del kernel
    gc.collect()
    assert alive() is not None
    runtime = hearth.Runtime(plan)
    del plan
    gc.collect()
    assert alive() is not None
    del runtime
    gc.collect()
    assert alive() is None


def test_c_kernels_are_checked():
    with pytest.raises(hearth.InvalidError, match="0"):
        hearth.CKernel(0)
    with pytest.raises(TypeError):
        hearth.CKernel(1.5)
    with pytest.raises(TypeError, match="ctypes"):
        hearth.CKernel(square)
    keep = Holder()
    alive = weakref.ref(keep)
    kernel = hearth.CKernel(1, keep=keep)
    del keep
    assert alive() is not None
    plan = one(kernel)
    del kernel
    assert alive() is not None
    del plan
    gc.collect()
    assert alive() is None
