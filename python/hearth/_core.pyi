# SPDX-License-Identifier: Apache-2.0
"""The extension module of hearth. Import these names from `hearth`.

Bytes and counts are plain integers. None stands for "the default" in arguments of constructors and for
"without a bound" in limits.
"""

from types import TracebackType
from typing import (
    Any,
    Callable,
    Iterable,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Type,
    Union,
    final,
)

_Shape = Union[int, Sequence[int]]
_DType = Any  # a name such as "float32", a NumPy dtype, or a type that NumPy understands

__version__: str

class Error(Exception):
    """A call that hearth answered with a status. `status` is its name, such as "CLOSED"."""

    status: str

class InvalidError(Error, ValueError):
    """INVALID: an argument that makes no sense; FOREIGN: something of another arena."""

class NoMemoryError(Error, MemoryError):
    """NO_MEMORY, NO_SLOT and OVERFLOW: what was asked for cannot be had."""

class ClosedError(Error):
    """CLOSED: the arena or service was closed, or the lease released."""

class NotOwnerError(Error):
    """NOT_OWNER: an execution arena belongs to one thread, and this is another one."""

class BusyError(Error):
    """BUSY: in use at this moment, or re-entered."""

class WaitTimeoutError(Error, TimeoutError):
    """TIMEOUT: the deadline of a request passed."""

def backing() -> str:
    """The backing that arenas use when none is named: "jemalloc" or "mmap"."""

def backings() -> Tuple[str, ...]:
    """The backings that this build has."""

@final
class ExecutionArenaStats(NamedTuple):
    """One consistent reading of an execution arena; the fields are those of hearth_exec_stats in stats.h. A bound that
    nobody set is None."""

    consistent: bool
    live_count: int
    live_bytes: int
    live_capacity: int
    peak_bytes: int
    retained_count: int
    retained_bytes: int
    pending_count: int
    pending_bytes: int
    footprint: int
    retention_cap: Optional[int]
    slots: int
    allocs: int
    frees: int
    remote_frees: int
    hits: int
    misses: int
    backing_acquires: int
    backing_releases: int
    evictions: int
    bypasses: int
    trims: int
    misuses: int
    purged_bytes: int
    rearrangements: int
    runs: int
    planned_runs: int
    plan_hits: int
    plan_misses: int
    plan_blocked: int
    plans_made: int
    plans: int
    slab_bytes: int
    plan_bytes: int
    plan_bound: int
    cold_bytes: int

@final
class IOArenaStats(NamedTuple):
    """One consistent reading of an I/O arena; the fields are those of hearth_io_stats in stats.h. A bound that nobody
    set is None."""

    consistent: bool
    live_count: int
    owned_count: int
    leased_count: int
    live_bytes: int
    leased_bytes: int
    live_capacity: int
    peak_bytes: int
    retained_count: int
    retained_bytes: int
    pending_count: int
    pending_bytes: int
    footprint: int
    retention_cap: Optional[int]
    slots: int
    misses: int
    backing_acquires: int
    backing_releases: int
    exports: int
    refills: int
    flushes: int
    evictions: int
    bypasses: int
    trims: int
    lost_bytes: int
    misuses: int

@final
class ServiceStats(NamedTuple):
    thread_count: int
    waiter_count: int
    live_bytes: int
    live_capacity: int
    retained_bytes: int
    stranded_bytes: int
    ceiling: Optional[int]
    footprint: int
    execution_footprint: int
    io_footprint: int

@final
class TrimReport(NamedTuple):
    """What a trim gave back, and why the rest stayed; bytes. The fields are those of hearth_trim_report."""

    released_bytes: int
    released_exec_bytes: int
    released_io_bytes: int
    purged_bytes: int
    kept_live: int
    kept_leased: int
    kept_pending: int
    kept_busy: int
    kept_unreached: int
    kept_lost: int
    kept_by_backing: int
    visited_caches: int
    busy_caches: int
    elapsed_ns: int
    more: bool

@final
class Lease:
    """A counted right to a buffer, seen as an array: shape, element type, strides.

    It offers the buffer protocol and DLPack, so numpy.asarray(lease), memoryview(lease) and
    torch.from_dlpack(lease) look at the same bytes without a copy, and keep them as long as they live. The buffer
    goes back to its arena exactly once, when the last of all these is gone, on whatever thread that is, also when
    the arena, the service or the interpreter is gone. Made by arenas, not by a constructor.
    """

    @property
    def shape(self) -> Tuple[int, ...]: ...
    @property
    def strides(self) -> Tuple[int, ...]:
        """Bytes from one element to the next, for each dimension."""
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> str:
        """The element type's name, such as "float32"."""
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
    @property
    def readonly(self) -> bool: ...
    @property
    def generation(self) -> int:
        """Tells this use of the buffer from earlier and later ones."""
    @property
    def arena(self) -> str:
        """The arena's kind and number, such as "io-3"; it says no more than that when the arena is gone."""
    @property
    def address(self) -> int:
        """Where the bytes are. Only good while the lease is held."""
    @property
    def exports(self) -> int:
        """Buffer-protocol views that look at it now; those made through DLPack are not seen from here."""
    @property
    def released(self) -> bool: ...
    def numpy(self, *, readonly: Optional[bool] = None) -> Any:
        """A NumPy array on the same bytes that owns a share of the lease. Writable unless the lease is read-only
        or readonly=True is asked for. Types that NumPy does not know (bfloat16, float8...) raise TypeError;
        view(dtype="uint16") and the like give the raw bits."""
    def view(self, dtype: Optional[_DType] = None, shape: Optional[_Shape] = None, *, offset: int = 0,
             readonly: Optional[bool] = None) -> Lease:
        """Another lease on the same buffer (no copy), from `offset` bytes on, with another type and shape. Of a
        contiguous lease only. readonly=False on a read-only lease is refused."""
    def release(self) -> None:
        """Let go early. New exports are refused with ClosedError from now on; what was exported before stays
        valid and keeps the buffer. Doing it again changes nothing."""
    def tobytes(self) -> bytes: ...
    def __len__(self) -> int:
        """Elements of the first dimension; TypeError for a scalar."""
    def __enter__(self) -> Lease: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        """Releases the lease."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __array__(self, dtype: Any = None, *, copy: Optional[bool] = None) -> Any:
        """For NumPy, which passes over a refused buffer in silence: this one says what is wrong."""
    def __dlpack__(self, *, stream: Optional[int] = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> object:
        """A DLPack capsule; versioned when max_version is (1, 0) or later. It holds a share of the lease, also when
        nobody consumes it. A read-only lease needs the versioned one: else BufferError."""
    def __dlpack_device__(self) -> Tuple[int, int]: ...

@final
class ExecutionArena:
    """An arena of one thread, for buffers that die inside a run.

    The thread that makes it owns it. Another thread gets NotOwnerError from everything but reading figures and
    close(), and may drop what it got from here. Each lease of it keeps its buffer; when the last share is gone the
    buffer is free for the owner's next request of that size, with its pages warm.

    One from Service.execution stands for the arena that the service has for the thread that asked: every use on
    another thread is a NotOwnerError, figures included. Those of the same thread are equal.
    """

    def __init__(self, capacity: Optional[int] = None, *, retention_limit: Optional[int] = None,
                 reuse_ratio: Optional[int] = None, store: Optional[Literal["lists", "spans", "plans"]] = None,
                 backing: Optional[str] = None) -> None: ...
    @property
    def capacity(self) -> int:
        """Most buffers with storage at a time."""
    @property
    def live_count(self) -> int: ...
    @property
    def live_bytes(self) -> int: ...
    @property
    def live_capacity(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def retained_count(self) -> int: ...
    @property
    def retained_bytes(self) -> int: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    @property
    def footprint(self) -> int: ...
    @property
    def retention_limit(self) -> Optional[int]: ...
    @retention_limit.setter
    def retention_limit(self, value: Optional[int]) -> None: ...
    @property
    def closed(self) -> bool: ...
    def empty(self, shape: _Shape, dtype: _DType = "uint8", *, alignment: int = 0) -> Lease: ...
    def zeros(self, shape: _Shape, dtype: _DType = "uint8", *, alignment: int = 0) -> Lease: ...
    def trim(self) -> int:
        """Give all retained storage back. Returns its bytes."""
    def reset_peak(self) -> None: ...
    def stats(self) -> ExecutionArenaStats: ...
    def run_begin(self, key: int = 0) -> None: ...
    def run_end(self) -> None: ...
    def release_owner(self) -> None:
        """Let the next thread that uses it own it."""
    def close(self) -> None:
        """Give back what is retained. What is still out stays valid, and goes back when it is dropped. Any thread may
        close it; where another one is inside a call, it takes effect when that returns. Figures are not told after
        it. Not for the arena of a service."""
    def __enter__(self) -> ExecutionArena: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None: ...

@final
class IOArena:
    """The arena for buffers that leave: any thread takes from it and returns to it, without a lock."""

    def __init__(self, capacity: Optional[int] = None, *, retention_limit: Optional[int] = None,
                 live_limit: Optional[int] = None, reuse_ratio: Optional[int] = None,
                 backing: Optional[str] = None) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def live_count(self) -> int: ...
    @property
    def owned_count(self) -> int: ...
    @property
    def leased_count(self) -> int: ...
    @property
    def live_bytes(self) -> int: ...
    @property
    def leased_bytes(self) -> int: ...
    @property
    def live_capacity(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def retained_count(self) -> int: ...
    @property
    def retained_bytes(self) -> int: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    @property
    def footprint(self) -> int: ...
    @property
    def retention_limit(self) -> Optional[int]: ...
    @retention_limit.setter
    def retention_limit(self, value: Optional[int]) -> None: ...
    @property
    def closed(self) -> bool: ...
    def empty(self, shape: _Shape, dtype: _DType = "uint8", *, alignment: int = 0,
              timeout: Optional[float] = None) -> Lease:
        """Lease a buffer with unspecified content. `timeout` in seconds is for a service that waits when it is
        exhausted; None: do not wait."""
    def zeros(self, shape: _Shape, dtype: _DType = "uint8", *, alignment: int = 0,
              timeout: Optional[float] = None) -> Lease: ...
    def from_dlpack(self, source: object, /) -> Lease:
        """Lease somebody else's memory without a copy: any object with __dlpack__, or a capsule. The producer's
        deleter is called once, when the last share of the lease is gone. CPU memory only."""
    def trim(self) -> int: ...
    def reset_peak(self) -> None: ...
    def stats(self) -> IOArenaStats: ...
    def close(self) -> None:
        """Refuse new leases, and give back what is retained. What is out stays valid, and is counted until it is
        back: figures are told after it. Not for the arena of a service."""
    def __enter__(self) -> IOArena: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None: ...

@final
class Service:
    """Execution arenas of all threads and one I/O arena under common limits; idle storage goes back by itself."""

    def __init__(self, *, execution_limit: Optional[int] = None, io_limit: Optional[int] = None,
                 ceiling: Optional[int] = None, live_limit: Optional[int] = None,
                 exhaustion: Literal["grow", "fail", "wait"] = "grow", reuse_ratio: Optional[int] = None,
                 age_runs: Optional[int] = None, age_seconds: Optional[float] = None,
                 store: Optional[Literal["lists", "spans", "plans"]] = None, scrub: bool = False,
                 maintenance_thread: bool = True, huge_pages: Optional[bool] = None,
                 backing: Optional[str] = None) -> None:
        """Limits are retained bytes: of each execution arena, of the I/O arena, of all together (ceiling).
        live_limit bounds what is live. age_*: 0 means never."""
    @property
    def io(self) -> IOArena: ...
    @property
    def execution(self) -> ExecutionArena:
        """The calling thread's execution arena."""
    @property
    def live_bytes(self) -> int: ...
    @property
    def live_capacity(self) -> int: ...
    @property
    def retained_bytes(self) -> int: ...
    @property
    def footprint(self) -> int: ...
    @property
    def thread_count(self) -> int: ...
    @property
    def ceiling(self) -> Optional[int]: ...
    @ceiling.setter
    def ceiling(self, value: Optional[int]) -> None: ...
    @property
    def backing(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def trim(self, goal: Optional[int] = None, *, budget: Optional[float] = None) -> TrimReport:
        """Give retained storage of all threads back: `goal` bytes of it, within `budget` seconds."""
    def tick(self) -> None: ...
    def end_run(self) -> None: ...
    def detach(self) -> None:
        """Give up the calling thread's arenas now, instead of when it ends."""
    def stats(self) -> ServiceStats: ...
    def _handle(self) -> object:
        """A capsule of the service, for hearth._numpy_memory."""
    def close(self) -> None: ...
    def __enter__(self) -> Service: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None: ...

class Kernel(Protocol):
    """What a node does, in Python. `node` is good until the kernel returns."""

    def __call__(self, node: Node, /) -> None: ...

@final
class CKernel:
    """What a node does, in C: enum hearth_status kernel(struct hearth_context *, void *user).

    Made from addresses (ctypes, cffi). `keep` is kept alive as long as the kernel: the library or the user data.
    It is called without the GIL.
    """

    def __init__(self, function: int, user: int = 0, *, keep: object = None, slot_aware: bool = False) -> None: ...

@final
class Node:
    """A kernel's view of its node in a run. Slots count from 0; None is an optional slot that is not used."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Tuple[Any, ...]:
        """The values of the inputs, as read-only NumPy arrays (leases where NumPy is missing or does not know the
        type, and memoryviews of what was fed). They stay valid as long as somebody refers to them, also after the
        run."""
    @property
    def output_count(self) -> int: ...
    def role(self, slot: int, /) -> Literal["none", "execution", "io"]:
        """Whether an output is an intermediate or a declared output."""
    def output(self, slot: int, shape: _Shape, dtype: _DType) -> Any:
        """Make an output where the plan wants it, and return it as a writable array with unspecified content."""
    def put(self, slot: int, value: Any) -> None:
        """Give an output an existing value: a lease or an array of this process, by a copy unless it is a lease of
        the arena that the plan wants. Passing an input on is fine: an intermediate is passed as it is, and copied
        where it leaves, as are values that another output has."""
    def temporary(self, shape: _Shape, dtype: _DType = "uint8") -> Any:
        """A workspace of the running thread's arena."""

@final
class Plan:
    """What runs in which order, and where each output lives. Built once, from nodes in any order.

        plan = Plan(inputs=["x"], outputs=["y"])
        plan.add(square, ["x"], ["t"])
        plan.add(double, ["t"], ["y"])

    It is complete with its first use by a runtime; add() is refused then.
    """

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None: ...
    def add(self, kernel: Union[Kernel, CKernel, Callable[[Node], None]], inputs: Sequence[Optional[str]],
            outputs: Sequence[Optional[str]], *, name: Optional[str] = None) -> int:
        """Add a node. Returns its number."""
    def build(self) -> None:
        """Check and order the nodes now. InvalidError names the node and the value that are wrong."""
    def role(self, node: int, slot: int, /) -> Literal["none", "execution", "io"]: ...
    def order(self) -> Tuple[int, ...]: ...
    @property
    def inputs(self) -> Tuple[str, ...]: ...
    @property
    def outputs(self) -> Tuple[str, ...]: ...

class RunStats(NamedTuple):
    """The figures of one run: one field for each line of HEARTH_RUN_STATS_MAP in session.h. Workspaces and copies that
    were made for kernels in Python are among them; the peaks are without those workspaces."""

    runs: int
    nodes: int
    threads: int
    tensors: int
    temporaries: int
    released: int
    reused_in_place: int
    remote_deaths: int
    payload_copies: int
    copied_bytes: int
    staged_copies: int
    migration_copies: int
    taken: int
    body_runs: int
    backing_acquires: int
    backing_releases: int
    execution_peak_bytes: int
    io_peak_bytes: int
    elapsed_ns: int

@final
class Runtime:
    """Runs a plan, again and again, on warm pages.

    Outputs come back as arrays that own their lease: they stay valid after clear(), after the next run and after
    the runtime is gone, and return their buffers exactly once.
    """

    def __init__(self, plan: Plan, *, service: Optional[Service] = None,
                 execution_arena: Optional[ExecutionArena] = None, io_arena: Optional[IOArena] = None) -> None:
        """`service` serves intermediates and outputs (one is made when nothing is given); the arenas take its
        place for either kind."""
    @property
    def plan(self) -> Plan: ...
    @property
    def service(self) -> Optional[Service]: ...
    @property
    def execution_arena(self) -> ExecutionArena: ...
    @property
    def io_arena(self) -> IOArena: ...
    @property
    def last_run(self) -> Optional[RunStats]: ...
    def run(self, feeds: Mapping[str, Any], *, executor: Any = None, threads: int = 0,
            leases: bool = False) -> Mapping[str, Any]:
        """Run the plan once. `feeds` are arrays (anything with the buffer protocol or DLPack), borrowed for the
        time of the run; those that are not contiguous are copied. `executor` is a concurrent.futures.Executor of
        threads for parallel nodes, with up to `threads` of them. Returns the declared outputs by name, as NumPy
        arrays, or as leases with leases=True. An exception of a kernel is raised here, the first one if there are
        several, with a note that names the node; the next run starts clean. One run at a time: BusyError."""
    def clear(self) -> None:
        """Forget what the last run left. Outputs that were returned stay valid."""
