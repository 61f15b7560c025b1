# SPDX-License-Identifier: Apache-2.0
"""NumPy's own arrays on warm pages: NumPy's data allocator (NEP 49) on a service.

NumPy keeps its allocator per context (contextvars): a new thread starts with NumPy's own, a task of asyncio and a
copied context inherit. An array keeps the allocator that it was born with, so arrays of both kinds mix, may be freed
anywhere, and outlive the service, the allocator and the `with` block they come from.

Nothing here needs NumPy before it is used.
"""

import contextvars
import os
import threading
from types import ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, Optional, Tuple, Type, Union

from . import _core

_Zeros = Literal["lazy", "warm"]


class NumpyStats(NamedTuple):
    """The figures of one allocator. They are exact while no array is made or dropped."""

    live_count: int
    """Blocks of the service that arrays own now."""
    live_bytes: int
    """Their bytes, as asked for."""
    allocations: int
    """Blocks taken from the service."""
    frees: int
    """Blocks given back to it."""
    zeroed: int
    """Blocks taken for zeros, and written to where they were not known to be zero."""
    zeroed_lazily: int
    """Blocks taken for zeros, whose pages were given back to the kernel instead."""
    resized: int
    """Blocks resized where they are."""
    moved: int
    """Blocks whose content was copied for another size."""
    fallbacks: int
    """Blocks left to NumPy's own functions: the service is closed, or has no slot."""
    failures: int
    """Requests answered with MemoryError."""
    wrong_sizes: int
    """Frees that told another size than the block has; NumPy does so for arrays without elements."""
    foreign: int
    """Frees and resizes of another service's blocks."""
    refused: int
    """Frees that were wrong: a second one, or one of a leased block. Nothing was freed."""


_memory: Optional[ModuleType] = None


def _load() -> ModuleType:
    """The extension, imported at first use. ImportError says what is missing and what to do."""
    global _memory
    if _memory is not None:
        return _memory
    try:
        import numpy
    except ImportError as error:
        raise ImportError("hearth's allocator for NumPy needs NumPy 1.22 or later, which is not installed: "
                          "install numpy") from error
    try:
        from . import _numpy_memory
    except ModuleNotFoundError as error:
        raise ImportError("this build of hearth has no allocator for NumPy: build hearth again where NumPy's headers "
                          "are (numpy.get_include() names their folder)") from error
    except Exception as error:
        raise ImportError("hearth's allocator for NumPy does not load with NumPy " + numpy.__version__ +
                          ", it was built for another one: build hearth again with this NumPy, or install the NumPy "
                          "that it was built with") from error
    if _numpy_memory.STATS != NumpyStats._fields:
        raise ImportError("hearth's allocator for NumPy is of another version than hearth: install hearth again")
    _memory = _numpy_memory
    return _memory


# The process's service and allocator

# A forked child has no thread that would give back a lock which another one held, so nobody holds it at a fork.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_service: Optional["_core.Service"] = None
_allocator: Optional["NumpyAllocator"] = None


def _wants_huge_pages() -> Optional[bool]:
    """NumPy's own switch for huge pages turns ours off as well; else the backing's default."""
    try:
        return False if int(os.environ["NUMPY_MADVISE_HUGEPAGE"]) == 0 else None
    except (KeyError, ValueError):
        return None


def default_service() -> "_core.Service":
    """The service of this process, made at first use and kept.

    It has no ceiling; what it retains goes back after ten seconds without use. Huge pages are used where the
    system's mode is "madvise" or "always", unless the environment has NUMPY_MADVISE_HUGEPAGE=0. When somebody closed
    it the next call makes another one.
    """
    global _service
    with _lock:
        if _service is None or _service.closed:
            _service = _core.Service(huge_pages=_wants_huge_pages())
        return _service


def _default_allocator() -> "NumpyAllocator":
    global _allocator
    service = default_service()
    with _lock:
        if _allocator is None or _allocator.service is not service:
            _allocator = NumpyAllocator(service)
        return _allocator


# Allocators

# The `with` blocks that are open in this context, innermost first: (allocator, handler before, what is around). It
# is never changed in place, so contexts that were copied from one another do not see each other's blocks.
_Entries = Optional[Tuple["NumpyAllocator", object, Any]]
_entered: "contextvars.ContextVar[_Entries]" = contextvars.ContextVar("hearth_numpy_allocators", default=None)


def _leave(entries: _Entries, allocator: "NumpyAllocator") -> Tuple[bool, object, _Entries]:
    """The entries without the innermost one of `allocator`: whether it was the innermost of all, the handler that
    was before it, and what is left. Where another block is open inside it, as generators can bring about, that one's
    handler stays, and its end brings back what was before the one that is left."""
    if entries is None:
        raise RuntimeError("this numpy_allocator was not entered in this context: leave a with block in the context "
                           "(thread, task) that entered it")
    entered, before, around = entries
    if entered is allocator:
        return True, before, around
    innermost, restored, rest = _leave(around, allocator)
    return False, restored, (entered, restored if innermost else before, rest)


class NumpyAllocator:
    """An allocator for NumPy's arrays: see numpy_allocator(). A context manager that may be entered again, also while
    it is entered, and by several threads at a time."""

    __slots__ = ("_handler", "_service", "_zeros", "_threshold", "_lazy_threshold", "__weakref__")

    def __init__(self, service: Optional["_core.Service"] = None, *, zeros: _Zeros = "lazy",
                 threshold: Optional[int] = None, lazy_threshold: Optional[int] = None) -> None:
        memory = _load()
        if zeros not in ("lazy", "warm"):
            raise ValueError(f"zeros={zeros!r} is no policy: use 'lazy' or 'warm'")
        if service is not None and not isinstance(service, _core.Service):
            raise TypeError(f"{service!r} is no hearth.Service: give one, such as hearth.Service(), or None for that "
                            "of this process")
        self._service = default_service() if service is None else service
        self._zeros = zeros
        self._threshold: int = memory.THRESHOLD if threshold is None else threshold
        self._lazy_threshold: int = memory.LAZY_THRESHOLD if lazy_threshold is None else lazy_threshold
        if self._threshold < 0 or self._lazy_threshold < 0:
            raise ValueError("threshold and lazy_threshold are bytes: 0 or more")
        self._handler = memory.handler(self._service._handle(), self._threshold,
                                       self._lazy_threshold if zeros == "lazy" else -1)

    @property
    def service(self) -> "_core.Service":
        return self._service

    @property
    def zeros(self) -> _Zeros:
        return self._zeros

    @property
    def threshold(self) -> int:
        """Smaller blocks are left to NumPy's own functions."""
        return self._threshold

    @property
    def lazy_threshold(self) -> int:
        """Zeros from this size on are lazy, where that is the policy."""
        return self._lazy_threshold

    def stats(self) -> NumpyStats:
        return NumpyStats._make(_load().stats(self._handler))

    def __enter__(self) -> "NumpyAllocator":
        before = _load().set_handler(self._handler)
        _entered.set((self, before, _entered.get()))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        innermost, before, rest = _leave(_entered.get(), self)
        _entered.set(rest)
        if innermost:
            _load().set_handler(before)

    def __reduce__(self) -> Any:
        raise TypeError("a NumpyAllocator cannot be pickled: make one in each process")

    def __repr__(self) -> str:
        return (f"<hearth.NumpyAllocator zeros={self._zeros!r} threshold={self._threshold} "
                f"lazy_threshold={self._lazy_threshold}>")


def numpy_allocator(service: Optional["_core.Service"] = None, *, zeros: _Zeros = "lazy",
                    threshold: Optional[int] = None, lazy_threshold: Optional[int] = None) -> NumpyAllocator:
    """Let NumPy take the memory of its arrays from a service (None: default_service()).

        with hearth.numpy_allocator():
            c = a + b        # on pages that an earlier array left warm

    `zeros` says how numpy.zeros() and the like are served from `lazy_threshold` bytes on (None: 32 MiB). "lazy": the
    pages are given back to the kernel, so zeros that nobody touches cost next to nothing, and touching them costs
    page faults. "warm": they are written to, which is the fastest for zeros that are used as a whole. Blocks smaller
    than `threshold` (None: 256 KiB) are left to NumPy's own functions.

    It holds for the calling context: a new thread starts with NumPy's own allocator. See NumpyThread, and
    install_numpy() for pools. Arrays stay valid after the block, and when the service is closed, after which new ones
    are served by NumPy's own functions. A limit of the service on live bytes raises MemoryError.
    """
    return NumpyAllocator(service, zeros=zeros, threshold=threshold, lazy_threshold=lazy_threshold)


def install_numpy(target: Union[None, "_core.Service", NumpyAllocator] = None, **options: Any) -> object:
    """Use an allocator in this context from now on, without a block: that of the process (None), a given one, or a
    new one for a service with the options of numpy_allocator(). Returns what uninstall_numpy() takes to bring back the
    state before. For the threads of a pool:

        ThreadPoolExecutor(initializer=hearth.install_numpy)
    """
    if isinstance(target, NumpyAllocator):
        if options:
            raise TypeError("options belong to a new allocator: give them to numpy_allocator()")
        allocator = target
    elif target is None and not options:
        allocator = _default_allocator()
    else:
        allocator = NumpyAllocator(target, **options)
    return _load().set_handler(allocator._handler)


def uninstall_numpy(state: object = None) -> object:
    """Go back to NumPy's own allocator in this context, or to `state`, which install_numpy() returned. Arrays that
    live stay valid. Returns the state before."""
    return _load().set_handler(state)


def numpy_handler(array: Any = None) -> Optional[str]:
    """The name of the allocator that owns an array's memory, None when the array does not own it; without an array
    that of this context: "hearth", or "default_allocator" for NumPy's own."""
    name: Optional[str] = _load().name(array)
    return name


class NumpyThread(threading.Thread):
    """A thread that starts with the allocator of the context that made it, or with a given one."""

    def __init__(self, *args: Any, allocator: Optional[NumpyAllocator] = None, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._numpy_handler = _load().get_handler() if allocator is None else allocator._handler

    def run(self) -> None:
        _load().set_handler(self._numpy_handler)
        super().run()
