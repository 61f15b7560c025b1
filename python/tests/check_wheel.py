#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_wheel.py SOURCE_DIR [BUILD_DIR]

Builds the wheel from a copy of the source tree, or from a build that exists, looks into it, installs it into a fresh
environment that sees the system's packages, and uses it there. No network. Exit 77: pip is not here.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# What a build of the package needs of the tree.
PARTS = ["CMakeLists.txt", "LICENSE", "cmake", "include", "src", "python"]

ALWAYS = {
    "hearth/__init__.py", "hearth/_core.pyi", "hearth/py.typed", "hearth/_core.abi3.so", "hearth/libhearth.so.0",
    "hearth/libhearth-runtime.so.0",
}
NAME = re.compile(r"hearth-\d+\.\d+\.\d+-cp311-abi3-linux_\w+\.whl")

SMOKE = """
import sys
import hearth
assert sys.argv[1] in hearth.__file__, hearth.__file__
assert hearth.backing() in hearth.backings()
with hearth.IOArena() as io:
    lease = io.zeros((4, 8), "float32")
    assert len(lease) == 4 and io.leased_count == 1
    try:
        import numpy
    except ImportError:
        print("no NumPy here")
    else:
        array = lease.numpy()
        lease.release()
        array += 1
        assert array.sum() == 32 and array.flags.writeable
        del array
    del lease
    assert io.leased_count == 0
assert hearth.Runtime and hearth.Plan and hearth.Service().execution.closed is False
print("hearth", hearth.__version__, "on", hearth.backing())
"""


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"check_wheel: exit {done.returncode}: {' '.join(str(part) for part in command)}")
    return done.stdout


def build(source: Path, existing: str | None, work: Path) -> Path:
    environment = dict(os.environ)
    if existing:
        environment["HEARTH_PYTHON_BUILD"] = existing
    else:
        copy = work / "copy"
        copy.mkdir()
        for part in PARTS:
            if (source / part).is_dir():
                shutil.copytree(source / part, copy / part, symlinks=True,
                                ignore=shutil.ignore_patterns("__pycache__", "build"))
            else:
                shutil.copy(source / part, copy / part)
        source = copy
        environment.pop("HEARTH_PYTHON_BUILD", None)
    before = {path for path in (source / "python").rglob("*") if "__pycache__" not in path.parts}
    run(sys.executable, "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir",
        "--wheel-dir", work / "wheels", source / "python", env=environment)
    after = {path for path in (source / "python").rglob("*") if "__pycache__" not in path.parts}
    assert before == after, f"the build leaves files in the source tree: {after - before}"
    wheels = list((work / "wheels").iterdir())
    assert len(wheels) == 1 and NAME.fullmatch(wheels[0].name), wheels
    return wheels[0]


def look(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = ALWAYS - names
    assert not missing, f"{wheel.name} lacks {missing}"
    if importlib.util.find_spec("numpy"):
        assert "hearth/_numpy_memory.abi3.so" in names, f"{wheel.name} lacks the module for NumPy"
    assert any(re.fullmatch(r"hearth-[^/]*\.dist-info/LICENSE", name) for name in names), "no LICENSE"
    assert ("hearth/libhearth-jemalloc.so.0" in names) == ("hearth/LICENSE.jemalloc" in names), "jemalloc's licence"
    odd = [name for name in names if not re.match(r"hearth/|hearth-[^/]*\.dist-info/", name)]
    assert not odd, f"{wheel.name} holds {odd}"


def use(wheel: Path, work: Path) -> None:
    """Install and import it where neither the source nor the build is in the way."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    venv = work / "venv"
    # pip comes from the system, so the environment needs none of its own.
    run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", venv)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel, env=environment)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    print(run(python, "-c", SMOKE, venv, cwd=elsewhere, env=environment), end="")


def main() -> None:
    missing = [name for name in ("pip", "setuptools", "wheel") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} lacks {', '.join('python3-' + name for name in missing)}"
              " (scripts/setup installs them)")
        sys.exit(77)
    existing = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="hearth-wheel-test-") as folder:
        work = Path(folder)
        wheel = build(Path(sys.argv[1]).resolve(), existing, work)
        look(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size // 1024} KiB")
        use(wheel, work)


main()
