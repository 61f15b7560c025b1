# SPDX-License-Identifier: Apache-2.0
"""hearth without NumPy, without its extension for NumPy's allocator, and with one for another NumPy."""

import subprocess
import sys
import textwrap

import pytest

import hearth


def script(text, **environment):
    import os

    return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **environment))


BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {name!r} or name == {name!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Block())
"""

CALLS = ["numpy_allocator()", "install_numpy()", "uninstall_numpy()", "numpy_handler()", "NumpyThread()"]


@pytest.mark.parametrize("missing, remedy", [("numpy", "install numpy"),
                                             ("hearth._numpy_memory", "build hearth again")])
def test_it_is_only_missed_when_it_is_used(missing, remedy):
    done = script(BLOCK.format(name=missing) + f"""
import hearth
assert hearth.default_service() is hearth.default_service()
for call in {CALLS!r}:
    try:
        eval("hearth." + call)
    except ImportError as error:
        assert {remedy!r} in str(error), error
    else:
        raise AssertionError(call)
assert {missing!r} not in sys.modules
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_hearth_does_not_import_numpy():
    done = script("import sys, hearth; assert 'numpy' not in sys.modules")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_extension_for_another_numpy():
    done = script("""
        import sys
        import numpy

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name == "hearth._numpy_memory":
                    raise RuntimeError("module compiled against ABI version 0x2000000")

        sys.meta_path.insert(0, Refuse())
        import hearth
        try:
            hearth.numpy_allocator()
        except ImportError as error:
            assert numpy.__version__ in str(error) and "build hearth again with this NumPy" in str(error), error
        else:
            raise AssertionError
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("value, off", [("0", True), ("1", False), ("", False), ("no", False), (None, False)])
def test_numpys_switch_for_huge_pages(monkeypatch, value, off):
    if value is None:
        monkeypatch.delenv("NUMPY_MADVISE_HUGEPAGE", raising=False)
    else:
        monkeypatch.setenv("NUMPY_MADVISE_HUGEPAGE", value)
    assert hearth.numpy_memory._wants_huge_pages() is (False if off else None)


def test_the_default_service_without_huge_pages():
    done = script("""
        import numpy as np, hearth, re
        with hearth.numpy_allocator():
            array = np.ones(64 << 20, np.uint8)
        at = array.__array_interface__["data"][0]
        flags = None
        for line in open("/proc/self/smaps"):
            found = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
            if found:
                inside = int(found[1], 16) <= at < int(found[2], 16)
            elif inside and line.startswith("VmFlags:"):
                flags = line.split()[1:]
        assert flags and "hg" not in flags, flags
    """, NUMPY_MADVISE_HUGEPAGE="0")
    assert (done.returncode, done.stderr) == (0, "")
