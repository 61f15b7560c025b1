# SPDX-License-Identifier: Apache-2.0
"""scripts/bench instructions: instructions per pair under callgrind, for small differences."""
import re
import shutil
import subprocess

from . import build, peers, report
from .errors import BenchError

NAME = "instructions"
HELP = "count the instructions of one pair (alloc, write one byte, free) under callgrind"
SIZES = (256, 4 << 10, 1 << 20)
# Start, end and the first, cold pairs are the same in both runs and cancel out.
FEW = 2000
MANY = 12000


def add_arguments(parser):
    parser.add_argument("--allocators", metavar="NAME,...", default="hearth",
                        help="as for exec (default: hearth)")


def count(command, environment):
    """Instructions of one process."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           *command], env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise BenchError(f"valgrind {' '.join(command)}: exit {done.returncode}: "
                         f"{done.stderr.strip()}")
    return int(found.group(1))


def per_operation(command, environment, count_option, few=FEW, many=MANY):
    """Instructions per operation of a program that does as many as the option says."""
    less, more = (count([*map(str, command), count_option, str(operations)], environment)
                  for operations in (few, many))
    return (more - less) / (many - few)


def require_valgrind():
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not installed")


def run(arguments):
    require_valgrind()
    chosen = peers.choose(arguments.allocators, peers.ALLOCATORS)
    program = build.program("bench_exec", arguments.build_dir)
    rows = []
    for allocator, path in chosen:
        for size in SIZES:
            command = [program, "--allocator", allocator.subject, "--bytes", size]
            found = per_operation(command, allocator.environment(path), "--pairs")
            rows.append([allocator.name, report.format_bytes(size), f"{found:.1f}"])
    print("\n".join(report.table(["allocator", "size", "instructions per pair"], rows)))
    return 0
