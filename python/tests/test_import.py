# SPDX-License-Identifier: Apache-2.0
"""The package in an interpreter of which nothing is known: no environment, no NumPy, and malloc stays the host's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hearth

PACKAGE = Path(hearth.__file__).resolve().parent

# Sanitizers are preloaded; without them the sanitized library does not load.
KEPT = {name: value for name, value in os.environ.items() if name in ("LD_PRELOAD", "ASAN_OPTIONS", "TSAN_OPTIONS")}


def stock(code: str) -> str:
    """What `code` prints where no site, no environment and no other package is in the way."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{code}"]
    done = subprocess.run(command, env=KEPT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def libraries() -> list[Path]:
    return [path for path in sorted(PACKAGE.glob("*.so*")) if not path.is_symlink()]


def test_stock_interpreter() -> None:
    assert stock("import hearth; print(hearth.backing() in hearth.backings())") == "True\n"


def test_without_numpy() -> None:
    out = stock(
        "import hearth\n"
        "try:\n    import numpy\nexcept ImportError:\n    print('no numpy')\n"
        "with hearth.IOArena() as io:\n"
        "    lease = io.zeros(8)\n"
        "    print(bytes(memoryview(lease)), io.leased_count)\n"
        "    del lease\n"
        "    print(io.leased_count)\n"
    )
    assert out == f"no numpy\n{bytes(8)} 1\n0\n"


def test_backing_is_known() -> None:
    assert hearth.backing() in hearth.backings()
    assert "mmap" in hearth.backings()
    assert ("jemalloc" in hearth.backings()) == any("jemalloc" in path.name for path in libraries())


@pytest.mark.parametrize("backing", hearth.backings())
def test_backing_from_threads(backing: str) -> None:
    out = stock(
        "import hearth, threading\n"
        f"io = hearth.IOArena(backing={backing!r})\n"
        "def work(seed):\n"
        "    for i in range(200):\n"
        "        lease = io.empty(4096 * (1 + (seed + i) % 64))\n"
        "        memoryview(lease)[0] = 1\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(io.leased_count); io.close()\n"
    )
    assert out == "0\n"


def test_nothing_replaces_malloc() -> None:
    """Nobody's allocator is defined by the package; the modules define nothing but their init function."""
    for library in libraries():
        out = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", str(library)],
                             capture_output=True, text=True, check=True).stdout
        names = {line.split()[0].split("@")[0] for line in out.splitlines() if line.split()[1] != "A"}
        if library.name.endswith(".abi3.so"):
            expected = rf"PyInit_{library.name.split('.')[0]}"
        elif "jemalloc" in library.name:
            expected = r"hearth__je_(mallocx|dallocx|sallocx|nallocx|mallctl)"
        else:
            expected = r"hearth_[a-z].*"
        # A sanitizer adds names of its own.
        expected += "|__(asan|odr_asan|tsan|ubsan).*"
        strange = [name for name in names if not re.fullmatch(expected, name)]
        assert names and not strange, f"{library.name}: {strange}"
