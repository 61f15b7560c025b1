# SPDX-License-Identifier: Apache-2.0
"""scripts/bench instructions: instructions per pair under callgrind, for small differences."""
import re
import shutil
import subprocess

from . import build, exec_command, report
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


def count_instructions(program, allocator, library, pairs, size):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program),
               "--allocator", allocator.subject, "--pairs", str(pairs), "--bytes", str(size)]
    done = subprocess.run(command, env=allocator.environment(library), capture_output=True,
                          text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise BenchError(f"{allocator.name}: valgrind: exit {done.returncode}: "
                         f"{done.stderr.strip()}")
    return int(found.group(1))


def per_pair(program, allocator, library, size):
    few, many = (count_instructions(program, allocator, library, pairs, size)
                 for pairs in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def run(arguments):
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not installed")
    subjects = exec_command.choose(arguments.allocators)
    program = build.program("bench_exec", arguments.build_dir)
    rows = []
    for allocator, library in subjects:
        for size in SIZES:
            count = per_pair(program, allocator, library, size)
            rows.append([allocator.name, report.format_bytes(size), f"{count:.1f}"])
    print("\n".join(report.table(["allocator", "size", "instructions per pair"], rows)))
    return 0
