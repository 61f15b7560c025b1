# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter: whoever still holds something then, it comes back once, and nothing crashes.

The observer (native.c) outlives the interpreter and prints what became of the buffers it watched.
"""

import re

import pytest

from support import SMOKE, run_python

# What keeps a lease, or an export of it (`thing`), until the end.
HOLDERS = {
    "module global": "kept = thing",
    "list in a global": "kept = [[thing]]",
    "cycle": "a = []; a.append(a); a.append(thing); del a",
    "cycle with gc off": "gc.disable(); a = []; a.append(a); a.append(thing); del a",
    "attribute of builtins": "import builtins; builtins.kept = thing",
    "attribute of sys": "sys.kept = thing",
    "attribute of the package": "hearth.kept = thing",
    "sys.modules": "sys.modules['kept'] = thing",
    "class attribute": "class Kept: it = thing",
    "threading.local": "kept = threading.local(); kept.it = thing",
    "atexit": "import atexit; atexit.register(lambda it=thing: None)",
    "atexit that uses it": "import atexit; atexit.register(lambda it=thing: (it, hearth.IOArena().empty(64).numpy()))",
    "default argument": "def kept(it=thing): pass",
    "closure of a generator": "def body():\n    it = thing\n    yield\n    yield it\nkept = body(); next(kept)",
    "finalizer": "import weakref\nclass Kept: pass\nkept = Kept(); weakref.finalize(kept, lambda it: None, thing)",
    "object with __del__": "class Kept:\n    def __del__(self): self.it = None\nkept = Kept(); kept.it = thing",
    "__del__ that makes more": "class Kept:\n"
                               "    def __del__(self):\n"
                               "        self.more = arena.empty(64) if not arena.closed else None\n"
                               "kept = Kept(); kept.it = thing; kept.me = kept",
    "joined thread's local": "class Kept: pass\n"
                             "kept = Kept()\ndef body(): kept.it = thing\n"
                             "t = threading.Thread(target=body); t.start(); t.join()",
    "thread that ends at the end": "def body(it):\n"
                                   "    threading.main_thread().join(); it = None\n"
                                   "threading.Thread(target=body, args=(thing,)).start()",
    "executor": "from concurrent.futures import ThreadPoolExecutor\n"
                "pool = ThreadPoolExecutor(2); future = pool.submit(lambda: thing); future.result()",
    "context variable": "import contextvars\nkept = contextvars.ContextVar('kept'); kept.set(thing)",
    "exception traceback":
        "def fail(it):\n    raise ValueError\ntry:\n    fail(thing)\nexcept ValueError as e:\n    kept = e",
    "functools.cache": "import functools\n@functools.cache\ndef kept(): return [thing]\nkept()",
}

THINGS = {
    "array": "thing = lease.numpy()",
    "view": "thing = lease.numpy()[3:].T",
    "lease": "thing = lease",
    "memoryview": "thing = memoryview(lease)",
    "legacy capsule": "thing = lease.__dlpack__()",
    "versioned capsule": "thing = lease.__dlpack__(max_version=(1, 0))",
    "dlpack array": "import numpy; thing = numpy.from_dlpack(lease)",
    "consumer": "thing = Consumer(lease)",
    "foreign": "thing = hearth.IOArena().from_dlpack(lease).numpy()",
}

ARENAS = {
    "io": "owner = arena = hearth.IOArena()",
    "execution": "owner = arena = hearth.ExecutionArena()",
    "service.io": "owner = hearth.Service(); arena = owner.io",
    "service.execution": "owner = hearth.Service(); arena = owner.execution",
}

END = """
if {drop}:
    del owner
    if "__del__" not in {holder!r}:
        del arena
del thing, lease
gc.collect() if gc.isenabled() else None
"""


def observed(text):
    """The figures of the observer's line."""
    lines = [line for line in text.splitlines() if line.startswith("observed:")]
    assert len(lines) == 1, text
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", lines[0])}


def run(native_path, code, **keywords):
    """Run to the end. Nothing is said on the way there, nothing came back twice, nothing was written to."""
    done = run_python(code, native=native_path, **keywords)
    figures = observed(done.stdout)
    assert figures["misuses"] == 0, done.stdout + done.stderr
    assert figures["spoilt"] == 0
    assert done.stderr == "", done.stderr
    return figures


def script(arena, thing, holder, drop):
    """What one module does: modules of one interpreter have names of their own, so several fit into one."""
    code = "\n".join([ARENAS[arena], "lease = arena.empty((8, 8), 'float64')",
                      "assert native.native_watch(lease.address) == 0", THINGS[thing],
                      HOLDERS[holder], END.format(drop=drop, holder=HOLDERS[holder])])
    return f"""
import types
_name = "held%d" % len([name for name in sys.modules if name.startswith("held")])
sys.modules[_name] = types.ModuleType(_name)
sys.modules[_name].__dict__.update({{k: v for k, v in PRISTINE.items()}})
exec({code!r}, sys.modules[_name].__dict__)
"""


def fewer(items, some):
    """All of them; where an interpreter takes seconds to start, some."""
    return sorted(some if SMOKE else items)


PRISTINE = "PRISTINE = {k: v for k, v in globals().items() if not k.startswith('__')}\n"


@pytest.mark.parametrize("holder", fewer(HOLDERS, ["cycle with gc off", "attribute of builtins", "atexit",
                                                   "threading.local", "__del__ that makes more", "executor"]))
def test_an_array_held_until_the_end(native_path, holder):
    """One interpreter per holder, with one array for each kind of arena."""
    code = PRISTINE + "".join(script(arena, "array", holder, drop) for arena, drop in
                              [("io", True), ("execution", True), ("service.io", False), ("service.execution", True)])
    figures = run(native_path, code)
    assert figures["watched"] == 4
    assert figures["out"] == 0


@pytest.mark.parametrize("holder", fewer(["module global", "cycle with gc off"], ["module global"]))
@pytest.mark.parametrize("thing", fewer(THINGS, ["view", "memoryview", "versioned capsule", "foreign"]))
def test_things_held_until_the_end(native_path, thing, holder):
    code = PRISTINE + "".join(script(arena, thing, holder, True) for arena in sorted(ARENAS))
    figures = run(native_path, code)
    assert figures["watched"] == 4
    if thing != "consumer":  # a __del__ in Python that calls ctypes is not run reliably that late
        assert figures["out"] == 0


@pytest.mark.parametrize("what", ["owner = hearth.Service()", "owner = hearth.IOArena(); owner.empty(1 << 20)",
                                  "owner = hearth.ExecutionArena(); owner.empty(1 << 20)",
                                  "owner = hearth.Service(); owner.io.empty(64 << 20); owner.execution.empty(64 << 20)",
                                  "owner = hearth.Service(age_seconds=0.01); owner.io.empty(64 << 20)",
                                  "owner = hearth.Service(ceiling=1 << 20); owner.close()",
                                  "import builtins; builtins.owner = hearth.Service().execution",
                                  "owner = hearth.Service().io; sys.owner = owner; del owner"])
def test_arenas_held_until_the_end(native_path, what):
    run(native_path, what)


def test_what_a_daemon_thread_holds_may_stay_out_and_hurts_nobody(native_path):
    run(native_path, """
service = hearth.Service()
def body():
    mine = hearth.IOArena()
    execution = hearth.ExecutionArena()
    lease = mine.empty(4096)
    out = lease.numpy()
    view = memoryview(execution.empty(4096))
    ready.release()
    while True:
        part = mine.empty(100_000).numpy()
        part[:] = 1
        scratch = service.execution.empty(100_000).numpy()
        scratch[:] = 1
        capsule = service.io.empty(100_000).__dlpack__()
ready = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=body, daemon=True).start()
for _ in range(3):
    assert ready.acquire(timeout=60)
""")


def test_daemon_threads_that_wait_in_the_library(native_path):
    """A daemon thread inside a call without the GIL when the interpreter ends."""
    figures = run(native_path, """
import time
service = hearth.Service(exhaustion="wait", live_limit=1 << 16)
held = service.io.empty(1 << 16)
threading.Thread(target=lambda: service.io.empty(1 << 16, timeout=2), daemon=True).start()
threading.Thread(target=lambda: [service.trim() for _ in range(10**9)], daemon=True).start()
time.sleep(0.2)
""")


@pytest.mark.parametrize("status", [0, 3])
def test_exit_without_finalization(status):
    done = run_python(f"""
io = hearth.IOArena()
out = io.empty(4096).numpy()
service = hearth.Service()
more = service.execution.empty(4096).numpy()
sys.stdout.flush()
os._exit({status})
""", check=False)
    assert done.returncode == status and done.stderr == ""


def test_sys_exit_in_the_middle(native_path):
    figures = run(native_path, """
io = hearth.IOArena()
with io.empty(64) as lease:
    native.native_watch(lease.address)
    out = lease.numpy()
    sys.exit(0)
""")
    assert figures["out"] == 0


LATE = """
{arena}
for index in range(4):
    lease = arena.empty((8, 8), "float64")
    lease.numpy().view("uint8")[...] = 0x21 + index
    assert native.native_watch(lease.address) == 0
    if {foreign}:
        lease = hearth.IOArena().from_dlpack(lease)
    tensor = consume(lease.__dlpack__(**(VERSIONED if index % 2 else LEGACY)))
    assert native.native_hold(ctypes.addressof(tensor), index % 2, 0x21 + index) == 0
    del lease
if {close}:
    owner.close()
if {drop}:
    del owner, arena
    gc.collect()
"""


@pytest.mark.parametrize("foreign", [False, True], ids=["lease", "lease of a lease"])
@pytest.mark.parametrize("close", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("drop", fewer([False, True], [True]), ids=lambda drop: "dropped" if drop else "kept")
def test_a_native_deleter_after_the_interpreter_is_gone(native_path, close, drop, foreign):
    """A pthread calls the deleters after Py_Finalize; the bytes are intact until then, and each buffer is back.
    A lease of a lease is let go without Python, too."""
    code = "".join(LATE.format(arena=arena, close=close, drop=drop, foreign=foreign) for arena in ARENAS.values())
    figures = run(native_path, code)
    assert figures == {**figures, "watched": 16, "late": 16, "out": 0}


def test_a_late_deleter_of_foreign_memory(native_path):
    """A native tensor leased by us and consumed from us: its own deleter is called once, after the end."""
    figures = run(native_path, """
io = hearth.IOArena()
for index in range(4):
    lease = io.from_dlpack(capsule_new(native.native_tensor(index % 2, 0, 1, 0), bool(index % 2)))
    tensor = consume(lease.__dlpack__(**(LEGACY if index < 2 else VERSIONED)))
    assert native.native_hold(ctypes.addressof(tensor), index >= 2, 0) == 0
    del lease
del io
assert native.native_deletions() == 0
""")
    assert figures == {**figures, "tensors": 4, "late": 4, "deletions": 4}


REGIMES = ["PYTHONTRACEMALLOC=5", "PYTHONMALLOC=debug", "PYTHONDEVMODE=1", "MALLOC_PERTURB_=165",
           "HEARTH_CONF=debug:poison", "HEARTH_CONF=debug:quarantine", "HEARTH_CONF=debug:sites+abort",
           "HEARTH_CONF=debug:guard,io_cap:0,exec_cap:0"]


@pytest.mark.parametrize("regime", fewer(REGIMES, ["PYTHONTRACEMALLOC=5", "HEARTH_CONF=debug:poison"]))
def test_finalization_under_other_regimes(native_path, regime):
    """Tracing, debug allocators, poisoned and guarded storage: with arrays, capsules and late deleters at once."""
    code = "\n".join([
        PRISTINE,
        LATE.format(arena=ARENAS["io"], close=False, drop=True, foreign=False),
        script("service.execution", "array", "module global", False),
        script("io", "versioned capsule", "attribute of builtins", False),
        script("service.io", "memoryview", "atexit", True),
        script("io", "lease", "class attribute", False)])
    figures = run(native_path, code, **dict([regime.split("=")]))
    assert figures == {**figures, "watched": 8, "out": 0, "late": 4}


def test_runtimes_and_plans_held_until_the_end(native_path):
    figures = run(native_path, """
import numpy as np
def double(node):
    node.output(0, node.inputs[0].shape, "float32")[...] = node.inputs[0] * 2
plan = hearth.Plan(inputs=["x"], outputs=["y"])
plan.add(double, ["x"], ["t"])
plan.add(double, ["t"], ["y"])
runtime = hearth.Runtime(plan)
out = runtime.run({"x": np.ones(16, "float32")})["y"]
assert (out == 4).all()
lease = runtime.run({"x": np.ones(16, "float32")}, leases=True)["y"]
assert native.native_watch(lease.address) == 0
kept = [plan, runtime, double, out, lease]
kept.append(kept)
double.kept = kept
""")
    assert figures["out"] == 0


def test_an_interpreter_that_begins_again(native_path, tmp_path):
    """Py_Finalize and Py_Initialize in one process: the second life works, what is left of the first does not hurt."""
    import shutil
    import subprocess
    import sysconfig

    from support import PACKAGE
    include = sysconfig.get_paths()["include"]
    config = sysconfig.get_config_vars()
    library = f"{config['LIBDIR']}/lib{config['LDLIBRARY'].removeprefix('lib').split('.so')[0]}.so"
    source = tmp_path / "twice.c"
    source.write_text("""
#include <Python.h>
int main(void)
{
    for (int i = 0; i < 3; i++) {
        Py_Initialize();
        if (PyRun_SimpleString("import hearth\\n"
                               "io = hearth.IOArena()\\n"
                               "lease = io.empty(64)\\n"
                               "view = memoryview(lease)\\n"
                               "view[0] = 1\\n"
                               "service = hearth.Service()\\n"
                               "more = service.execution.empty(4096)\\n"
                               "capsule = more.__dlpack__()\\n"
                               "print('life')\\n") != 0)
            return 1;
        if (Py_FinalizeEx() != 0)
            return 2;
    }
    return 0;
}
""")
    program = tmp_path / "twice"
    built = subprocess.run([shutil.which("cc"), f"-I{include}", str(source), "-o", str(program), library],
                           capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip("no Python headers or library to embed")
    import os
    done = subprocess.run([str(program)], env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)}, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["life"] * 3 and done.stderr == ""
