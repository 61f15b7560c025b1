# SPDX-License-Identifier: Apache-2.0
"""Builds the package's libraries with CMake and packs them with the Python files beside this one.

HEARTH_PYTHON_BUILD names the folder of a CMake build whose package is taken as it is instead.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# What a wheel is made of besides Python files; the first three are always there.
LIBRARIES = ["_core.abi3.so", "libhearth.so.0", "libhearth-runtime.so.0"]
MAYBE = ["_numpy_memory.abi3.so", "libhearth-jemalloc.so.0", "LICENSE.jemalloc"]

FLAGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_C_FLAGS_RELEASE": "-O2 -DNDEBUG",
    "CMAKE_SHARED_LINKER_FLAGS": "-Wl,--strip-debug",
    "CMAKE_MODULE_LINKER_FLAGS": "-Wl,--strip-debug",
    "HEARTH_CHECK_LEVEL": "0",
    "HEARTH_BUILD_PYTHON": "on",
    "HEARTH_PYTHON": sys.executable,
    # Its libraries are the package's own objects; nothing else of the project is wanted.
    "HEARTH_JEMALLOC": "off",
    **{f"HEARTH_BUILD_{part}": "OFF" for part in ("TESTS", "STRESS", "BENCH", "TOOLS", "EXAMPLES")},
    "HEARTH_WERROR": "OFF",
}


def version() -> str:
    header = ROOT / "include" / "hearth" / "version.h"
    if not header.is_file():
        sys.exit(f"setup.py: {header} not found: the package is built inside hearth's source tree")
    found = dict(re.findall(r"^#define HEARTH_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", header.read_text(), re.M))
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


class BinaryDistribution(Distribution):
    """The libraries are not extensions that setuptools knows."""

    def has_ext_modules(self) -> bool:
        return True


class BuildWithCMake(build_ext):
    def run(self) -> None:
        named = os.environ.get("HEARTH_PYTHON_BUILD")
        if named:
            self.take(Path(named))
            return
        # Without a name CMake takes make, which need not be there.
        generator = ["-G", "Ninja"] if shutil.which("ninja") and "CMAKE_GENERATOR" not in os.environ else []
        with tempfile.TemporaryDirectory(prefix="hearth-wheel-") as folder:
            definitions = [f"-D{name}={value}" for name, value in FLAGS.items()]
            self.cmake("-S", str(ROOT), "-B", folder, *generator, *definitions)
            self.cmake("--build", folder, "--parallel", str(os.cpu_count() or 1), "--target", "hearth_python_package")
            self.take(Path(folder))

    def cmake(self, *arguments: str) -> None:
        if shutil.which("cmake") is None:
            sys.exit("setup.py: cmake not found: install cmake 3.25 or later")
        subprocess.run(["cmake", *arguments], check=True)

    def take(self, build: Path) -> None:
        """Copy what CMake made into the wheel."""
        source = build / "python" / "hearth"
        target = Path(self.build_lib) / "hearth"
        target.mkdir(parents=True, exist_ok=True)
        for name in LIBRARIES + MAYBE:
            if (source / name).exists():
                shutil.copy(source / name, target / name)
            elif name in LIBRARIES:
                sys.exit(f"setup.py: {source / name} not found: build the target hearth_python_package there")


# Everything that setuptools writes on the way goes to a folder of its own, so the source tree may be read-only.
with tempfile.TemporaryDirectory(prefix="hearth-setup-") as scratch:
    setup(
        version=version(),
        distclass=BinaryDistribution,
        cmdclass={"build_ext": BuildWithCMake},
        options={
            "bdist_wheel": {"py_limited_api": "cp311"},
            "build": {"build_base": scratch},
            "egg_info": {"egg_base": scratch},
        },
    )
