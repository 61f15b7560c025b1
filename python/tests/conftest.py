# SPDX-License-Identifier: Apache-2.0
"""What all tests share."""

import os
import sys
from pathlib import Path

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run says something only about the interpreter and the package that it was meant for; ctest names both."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11):
        raise pytest.UsageError(f"{sys.executable} is {sys.version.split()[0]}; hearth needs CPython 3.11 or later")
    python = os.environ.get("HEARTH_TEST_PYTHON")
    if python and Path(python).resolve() != Path(sys.executable).resolve():
        raise pytest.UsageError(f"run by {sys.executable}, not by {python}")
    import hearth

    package = os.environ.get("HEARTH_TEST_PACKAGE")
    if package and Path(package).resolve() != Path(hearth.__file__).resolve().parent:
        raise pytest.UsageError(f"hearth is {hearth.__file__}, not {package}: look at PYTHONPATH")
