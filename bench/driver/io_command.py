# SPDX-License-Identifier: Apache-2.0
"""scripts/bench io: the I/O arena against buffer pools and the mallocs of this machine."""
import pathlib
import sys

from . import build, instructions, machine, peers, report, rounds
from .errors import BenchError, UsageError, parse_names, positive
from .peers import Allocator

NAME = "io"
HELP = "measure the I/O arena and every installed peer, print a table, write a CSV file"
SINGLE_CASES = ["acquire_release", "alloc_export_release", "retain_release"]
CASES = [*SINGLE_CASES, "cross_thread", "pairs"]
SIZES = (4 << 10, 64 << 10, 1 << 20)
ROUNDS = 7
QUICK_ROUNDS = 3

# Pools that have a program of their own, by the package that brings the library.
POOLS = {"dpdk": "libdpdk-dev", "avbufferpool": "libavutil-dev", "gstreamer": "libgstreamer1.0-dev"}
MALLOCS = [allocator for allocator in peers.ALLOCATORS if allocator.subject == "malloc"]
ALLOCATORS = [Allocator("hearth", subject="hearth"),
              *(Allocator(name, subject=name) for name in POOLS), *MALLOCS]
NAMES = [allocator.name for allocator in ALLOCATORS]


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the table; no CSV file")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"processes per allocator and case (default {ROUNDS}; "
                             f"quick {QUICK_ROUNDS})")
    parser.add_argument("--cases", metavar="NAME,...", default=",".join(CASES),
                        help="some of " + ",".join(CASES))
    parser.add_argument("--allocators", metavar="NAME,...",
                        help="some of " + ",".join(NAMES) + " (default: what is installed)")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter samples, to see that it works; no CSV file")
    parser.add_argument("--instructions", action="store_true",
                        help="count the instructions of the cases of one thread under callgrind "
                             "instead, of hearth unless --allocators names others")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/io-<date>.csv)")


def choose_subjects(arguments, option):
    """The processes to run: what is to be measured, installed, and was built."""
    chosen = peers.choose(option, ALLOCATORS)
    names = ["hearth", *POOLS, "malloc"]
    programs = build.peer_programs("bench_io", names, arguments.build_dir)
    subjects = []
    for allocator, path in chosen:
        program = programs.get(allocator.subject)
        if program is not None:
            subjects.append(allocator.as_subject([str(program)], path))
        elif allocator.subject not in POOLS:
            raise BenchError(f"there is no bench_io_{allocator.subject}: build it first")
        elif option is not None:
            raise UsageError(f"--allocators: {allocator.name} needs {POOLS[allocator.subject]} "
                             "when hearth is built")
        else:
            print(f"bench: {allocator.name} was not installed when hearth was built "
                  f"({POOLS[allocator.subject]})", file=sys.stderr)
    return subjects


def run_instructions(arguments, cases):
    instructions.require_valgrind()
    rows = []
    for subject in choose_subjects(arguments, arguments.allocators or "hearth"):
        for case in (case for case in cases if case in SINGLE_CASES):
            counts = [instructions.per_operation(
                [*subject.command, "--cases", case, "--bytes", str(size)],
                subject.environment, "--count") for size in SIZES]
            rows.append([subject.name, case, *(f"{count:.1f}" for count in counts)])
    heading = ["allocator", "instructions", *map(report.format_bytes, SIZES)]
    print("\n".join(report.table(heading, rows)))
    return 0


def run(arguments):
    cases = parse_names("--cases", arguments.cases, CASES)
    if arguments.instructions:
        return run_instructions(arguments, cases)
    count = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.rounds is not None:
        count = positive("--rounds", arguments.rounds)
    subjects = choose_subjects(arguments, arguments.allocators)

    figures = rounds.run_rounds(subjects, cases, count, ["--quick"] if arguments.quick else [])
    order = {name: place for place, name in enumerate(NAMES)}
    figures.sort(key=lambda f: (CASES.index(f.case), f.threads, f.bytes, order[f.allocator]))
    report.publish(NAME, arguments, figures, NAMES, machine.describe())
    return 0
