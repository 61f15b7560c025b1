# SPDX-License-Identifier: Apache-2.0
"""Subinterpreters: each has its own types; leases pass between them through DLPack only.

Each test runs in a process of its own, as a crash there would be one of all tests.
"""

import pytest

from support import run_python
from test_finalization import observed

try:
    import _interpreters  # noqa: F401
except ImportError:
    _interpreters = None
try:
    import _xxsubinterpreters  # noqa: F401
except ImportError:
    _xxsubinterpreters = None

pytestmark = pytest.mark.skipif(_interpreters is None and _xxsubinterpreters is None,
                                reason="needs an interpreter that makes subinterpreters")

BEGIN = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def create():
    try:
        return interpreters.create("legacy")
    except TypeError:
        return interpreters.create()

def run(number, text):
    import pathlib
    head = "import sys, ctypes, gc\\nsys.path[:] = %r\\n" % sys.path
    failure = interpreters.run_string(number, head + text)
    assert failure is None, failure
"""


def test_the_module_is_imported_and_used_there(native_path):
    done = run_python(BEGIN + """
for _ in range(3):
    number = create()
    run(number, '''
import hearth
io = hearth.IOArena()
lease = io.empty((4, 4), "float32")
view = memoryview(lease)
assert view.shape == (4, 4) and lease.exports == 1
execution = hearth.ExecutionArena()
other = execution.empty(64)
service = hearth.Service()
third = service.execution.empty(64)
capsule = third.__dlpack__()
try:
    io.empty(-1)
except hearth.InvalidError:
    pass
del view, lease
assert io.live_count == 0
kept = io.empty(64)
me = [kept, io]; me.append(me)
''')
    interpreters.destroy(number)
io = hearth.IOArena()
assert io.empty(64).nbytes == 64
print("done")
""", native=native_path)
    assert "done" in done.stdout and done.stderr == ""
    assert observed(done.stdout)["misuses"] == 0


def test_types_and_errors_are_of_each_interpreter(native_path):
    done = run_python(BEGIN + """
number = create()
run(number, '''
import hearth
print(id(hearth.Lease), id(hearth.Error))
''')
print(id(hearth.Lease), id(hearth.Error))
interpreters.destroy(number)
try:
    hearth.IOArena().empty(-1)
except hearth.InvalidError:
    print("ours")
""")
    lines = done.stdout.split("\n")
    assert set(lines[0].split()).isdisjoint(lines[1].split()) and lines[2] == "ours"
    assert done.stderr == ""


@pytest.mark.parametrize("arena", ["hearth.IOArena()", "hearth.ExecutionArena()", "hearth.Service().io"])
def test_a_lease_outlives_the_interpreter_it_came_from(native_path, arena):
    """Consumed natively there; deleted here, by a native thread, and at exit."""
    done = run_python(lifetime(native_path, arena), native=native_path)
    figures = observed(done.stdout)
    assert "done" in done.stdout and done.stderr == ""
    assert figures == {**figures, "watched": 1, "out": 0, "misuses": 0, "late": 1, "spoilt": 0}


def lifetime(native_path, arena):
    from support import SOURCES
    note = str(native_path) + ".note"
    inner = f"""
sys.path.insert(0, {str(SOURCES)!r})
import hearth
from support import *
native = load_native({str(native_path)!r})
arena = {arena}
lease = arena.empty(64)
ctypes.memset(lease.address, 0x44, 64)
assert native.native_watch(lease.address) == 0
first = consume(lease.__dlpack__())
second = consume(lease.__dlpack__(max_version=(1, 0)))
assert native.native_hold(ctypes.addressof(second), 1, 0x44) == 0
with open({note!r}, "w") as stream:
    stream.write(str(ctypes.addressof(first)))
del arena, lease
"""
    return BEGIN + f"""
number = create()
run(number, {inner!r})
interpreters.destroy(number)
pointer = int(open({note!r}).read())
assert ctypes.string_at(DLManagedTensor.from_address(pointer).dl_tensor.data, 64) == bytes([0x44]) * 64
assert native.native_delete_on_thread(pointer, 0) == 0
print("done")
"""


def test_interpreters_with_a_lock_of_their_own(native_path):
    """Where they exist (3.12 and later) the module says whether it can: it is imported, or refused by ImportError."""
    if _interpreters is None:
        pytest.skip("needs 3.13")
    done = run_python("""
import _interpreters
number = _interpreters.create("isolated")
print(_interpreters.run_string(number, '''
try:
    import hearth
    hearth.IOArena().empty(64)
except ImportError:
    pass
'''))
_interpreters.destroy(number)
""")
    assert done.stdout.strip() == "None"
