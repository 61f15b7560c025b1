# SPDX-License-Identifier: Apache-2.0
"""The stub, the module and the package name the same things."""

import ast
import inspect

import pytest

import hearth
import hearth._core as core
from support import PACKAGE

STUB = ast.parse((PACKAGE / "_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
TYPING_ONLY = {"Kernel"}
FIGURES = {name for name, node in CLASSES.items()
           if any(getattr(base, "id", "") == "NamedTuple" for base in node.bases)}


def public(names):
    return {name for name in names if not name.startswith("_")}


def members(node):
    """Names of a class in the stub."""
    found = set()
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found.add(item.name)
        elif isinstance(item, ast.AnnAssign):
            found.add(item.target.id)
    return found


def test_the_module_has_what_the_stub_says():
    assert public(dir(core)) == set(CLASSES) - TYPING_ONLY | FUNCTIONS


def test_the_package_exports_all_of_it():
    missing = (set(CLASSES) - TYPING_ONLY | FUNCTIONS) - set(dir(hearth))
    assert not missing
    for name in set(CLASSES) - TYPING_ONLY | FUNCTIONS:
        assert getattr(hearth, name) is getattr(core, name)
    assert hearth.__version__ == core.__version__
    if hasattr(hearth, "__all__"):
        assert set(CLASSES) - TYPING_ONLY | FUNCTIONS <= set(hearth.__all__)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - TYPING_ONLY))
def test_members_of(name):
    kind, stub = getattr(core, name), members(CLASSES[name])
    offered = public(dir(kind))
    if name in FIGURES:
        fields = [item.target.id for item in CLASSES[name].body if isinstance(item, ast.AnnAssign)]
        assert set(fields) <= offered
        return
    if issubclass(kind, BaseException):
        return
    # Constructors are inherited where there is none, and __buffer__ is a name of 3.12.
    assert stub - {"__init__", "__buffer__"} <= set(dir(kind))
    assert offered == public(stub)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - TYPING_ONLY - FIGURES))
def test_everything_has_a_docstring(name):
    kind = getattr(core, name)
    assert inspect.getdoc(kind)
    if issubclass(kind, BaseException):
        return
    for member in public(dir(kind)):
        value = inspect.getattr_static(kind, member)
        assert (value.__doc__ or "").strip(), f"{name}.{member}"


@pytest.mark.parametrize("name", sorted(set(CLASSES) - TYPING_ONLY - FIGURES))
def test_signatures_agree(name):
    """Where C code tells its signature, the names of the parameters are those of the stub."""
    kind = getattr(core, name)
    for item in CLASSES[name].body:
        if not isinstance(item, ast.FunctionDef) or item.name.startswith("__") or item.decorator_list:
            continue
        try:
            signature = inspect.signature(getattr(kind, item.name))
        except ValueError:
            pytest.fail(f"{name}.{item.name} has no signature")
        expected = [argument.arg for argument in item.args.posonlyargs + item.args.args + item.args.kwonlyargs]
        assert list(signature.parameters) == expected, f"{name}.{item.name}"


def test_figures_are_those_of_the_library():
    import re

    headers = PACKAGE.parents[2] / "include" / "hearth"
    for folder in __import__("pathlib").Path(__file__).resolve().parents:
        if (folder / "include" / "hearth" / "stats.h").exists():
            headers = folder / "include" / "hearth"
    if not (headers / "stats.h").exists():
        pytest.skip("an installed package without the library's sources")
    for header, macro, kind in [("stats.h", "HEARTH_EXEC_STATS_MAP", hearth.ExecutionArenaStats),
                                ("stats.h", "HEARTH_IO_STATS_MAP", hearth.IOArenaStats),
                                ("session.h", "HEARTH_RUN_STATS_MAP", hearth.RunStats)]:
        text = (headers / header).read_text()
        body = re.search(r"#define " + macro + r"\(X\)(.*?[^\\])\n", text, re.S).group(1)
        names = set(re.findall(r"X\((\w+),", body))
        assert names and names <= public(dir(kind)), names - set(dir(kind))


def test_version_and_backings():
    assert hearth.__version__.count(".") == 2
    assert hearth.backing() in hearth.backings() and "mmap" in hearth.backings()
    assert (PACKAGE / "py.typed").exists()


def test_types_say_where_they_are():
    for name in set(CLASSES) - TYPING_ONLY:
        kind = getattr(hearth, name)
        assert kind.__module__ in ("hearth", "hearth._core"), name
        assert kind.__qualname__ == name
