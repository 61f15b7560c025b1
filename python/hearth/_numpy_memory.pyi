# SPDX-License-Identifier: Apache-2.0
"""The extension module behind hearth.numpy_memory; it is there where hearth was built with NumPy's headers."""

from typing import Any, Final, Optional, Tuple

STATS: Final[Tuple[str, ...]]
THRESHOLD: Final[int]
LAZY_THRESHOLD: Final[int]

def handler(service: object, threshold: int, lazy_threshold: int, /) -> object:
    """A new handler on a service's capsule. A lazy_threshold of -1: zeros are never lazy."""

def set_handler(handler: Optional[object], /) -> object:
    """Use a handler in this context, None: NumPy's own. Returns the one before."""

def get_handler() -> object:
    """The handler of this context."""

def name(array: Optional[Any], /) -> Optional[str]:
    """The name of an array's handler; None: of this context's."""

def stats(handler: object, /) -> Tuple[int, ...]:
    """The figures of a handler, in the order of STATS."""
