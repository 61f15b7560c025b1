# SPDX-License-Identifier: Apache-2.0
"""Buffers that stay warm: arenas, leases, NumPy arrays that own their memory's lease.

    import hearth

    io = hearth.IOArena()
    image = io.empty((1080, 1920, 3), "uint8").numpy()   # goes back to the arena when nobody looks at it any more

    with hearth.numpy_allocator():                       # NumPy's own arrays on warm pages
        c = a + b
"""

from ._core import (  # noqa: F401
    BusyError,
    CKernel,
    ClosedError,
    Error,
    ExecutionArena,
    ExecutionArenaStats,
    InvalidError,
    IOArena,
    IOArenaStats,
    Lease,
    Node,
    NoMemoryError,
    NotOwnerError,
    Plan,
    RunStats,
    Runtime,
    Service,
    ServiceStats,
    TrimReport,
    WaitTimeoutError,
    __version__,
    backing,
    backings,
)
from .numpy_memory import (  # noqa: F401
    NumpyAllocator,
    NumpyStats,
    NumpyThread,
    default_service,
    install_numpy,
    numpy_allocator,
    numpy_handler,
    uninstall_numpy,
)
