# SPDX-License-Identifier: Apache-2.0
"""The allocators that are compared, and how a process is started so that it uses one of them."""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from .errors import BenchError, UsageError, parse_names
from .rounds import Subject

# As far as glibc can be raised by settings: never mmap, never trim, grow by 64 MiB.
GLIBC_TUNED = ":".join((
    "glibc.malloc.mmap_threshold=33554432",
    "glibc.malloc.mmap_max=0",
    "glibc.malloc.trim_threshold=1099511627776",
    "glibc.malloc.top_pad=67108864",
))
# oversize_threshold: buffers from 8 MiB up otherwise live in an arena that ignores the decay times.
JEMALLOC_NODECAY = "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0"

# Settings of any allocator that must not leak in from the caller's environment.
SETTINGS = re.compile(r"LD_PRELOAD|GLIBC_TUNABLES|(MALLOC|MIMALLOC|TCMALLOC|TBB)_.*")


@dataclass(frozen=True)
class Allocator:
    name: str
    subject: str = "malloc"       # bench_exec --allocator, bench_io_<subject>
    library: str | None = None    # soname to preload
    settings: dict = field(default_factory=dict)
    optional: bool = False        # only when asked for by name

    def environment(self, path):
        """The environment of a process that uses this allocator; path is the library's."""
        env = {k: v for k, v in os.environ.items() if not SETTINGS.fullmatch(k)}
        env.update(self.settings)
        if path:
            env["LD_PRELOAD"] = path
        return env

    def as_subject(self, command, path):
        """A process to run: `command` with this allocator, whose library is at `path`."""
        return Subject(self.name, tuple(command), self.environment(path),
                       self.library or "libc.so", self.subject == "hearth")


ALLOCATORS = (
    Allocator("hearth", subject="hearth"),
    Allocator("glibc"),
    Allocator("glibc-tuned", settings={"GLIBC_TUNABLES": GLIBC_TUNED}),
    Allocator("jemalloc", library="libjemalloc.so.2"),
    Allocator("jemalloc-nodecay", library="libjemalloc.so.2",
              settings={"MALLOC_CONF": JEMALLOC_NODECAY}),
    Allocator("jemalloc-tcache", library="libjemalloc.so.2", optional=True,
              settings={"MALLOC_CONF": JEMALLOC_NODECAY + ",tcache_max:8388608"}),
    Allocator("mimalloc", library="libmimalloc.so.2"),
    Allocator("tcmalloc", library="libtcmalloc_minimal.so.4"),
    Allocator("tbb", library="libtbbmalloc_proxy.so.2"),
)
NAMES = [allocator.name for allocator in ALLOCATORS]


def installed_libraries():
    """Paths of this machine's shared libraries by soname, as the dynamic linker knows them."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"cannot list the installed libraries: {error}") from error
    # Of several builds of one library the first is the one for this machine's own word size.
    paths = {}
    for soname, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", listing.stdout, re.MULTILINE):
        paths.setdefault(soname, path)
    return paths


def choose(option, known):
    """
    (allocator, library path) of what is to be measured and installed, of those `known`; `option`
    is a list of names or None.
    """
    names = [allocator.name for allocator in known]
    if option is not None:
        wanted = parse_names("--allocators", option, names)
    else:
        wanted = [allocator.name for allocator in known if not allocator.optional]
    libraries = installed_libraries()
    chosen = []
    for allocator in known:
        if allocator.name not in wanted:
            continue
        path = libraries.get(allocator.library)
        if allocator.library is None or path is not None:
            chosen.append((allocator, path))
        elif option is not None:
            raise UsageError(f"--allocators: {allocator.name} needs {allocator.library}, "
                             "not installed")
        else:
            print(f"bench: {allocator.name} is not installed ({allocator.library})",
                  file=sys.stderr)
    return chosen
