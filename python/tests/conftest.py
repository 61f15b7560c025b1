# SPDX-License-Identifier: Apache-2.0
"""What all tests share. Every arena that a test gets from here must have everything back when the test ends."""

import gc
import os
import sys
import types
from pathlib import Path

import pytest

import hearth
import support


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run says something only about the interpreter and the package that it was meant for; ctest names both."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11):
        raise pytest.UsageError(f"{sys.executable} is {sys.version.split()[0]}; hearth needs CPython 3.11 or later")
    python = os.environ.get("HEARTH_TEST_PYTHON")
    if python and Path(python).resolve() != Path(sys.executable).resolve():
        raise pytest.UsageError(f"run by {sys.executable}, not by {python}")
    package = os.environ.get("HEARTH_TEST_PACKAGE")
    if package and Path(package).resolve() != Path(hearth.__file__).resolve().parent:
        raise pytest.UsageError(f"hearth is {hearth.__file__}, not {package}: look at PYTHONPATH")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests collect garbage thousands of times: only their own."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def native_path(tmp_path_factory):
    path = support.compile_native(tmp_path_factory.mktemp("native"))
    if path is None:
        pytest.skip("no C compiler")
    return path


@pytest.fixture(scope="session")
def native(native_path):
    return support.load_native(native_path)


@pytest.fixture
def exactly_once():
    """No buffer is returned twice while the test runs. Tests that make wrong calls say how many (`allowed`)."""
    support.collect()
    before = support.misuses()
    books = types.SimpleNamespace(allowed=0)
    yield books
    support.collect()
    assert before <= support.misuses() <= before + books.allowed


@pytest.fixture
def io(exactly_once):
    """An I/O arena; at the end of the test nothing of it is out."""
    arena = hearth.IOArena()
    yield arena
    assert support.settled(arena)


@pytest.fixture
def execution(exactly_once):
    """An execution arena of the test's thread; at the end of the test nothing of it is out."""
    arena = hearth.ExecutionArena()
    yield arena
    assert support.settled(arena)


@pytest.fixture
def service(exactly_once):
    made = hearth.Service()
    yield made
    support.collect()
    assert made.live_bytes == 0
    made.close()


@pytest.fixture(params=["io", "execution"])
def arena(request, exactly_once):
    """Either kind."""
    made = hearth.IOArena() if request.param == "io" else hearth.ExecutionArena()
    yield made
    assert support.settled(made)
