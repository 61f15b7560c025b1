# SPDX-License-Identifier: Apache-2.0
"""scripts/bench exec: the execution arena against the mallocs of this machine."""
import pathlib

from . import build, machine, peers, report, rounds
from .errors import parse_names, positive

NAME = "exec"
HELP = "measure the execution arena and every installed peer, print a table, write a CSV file"
CASES = ["pair", "mixed", "first_touch", "warm_touch", "remote_free"]
ROUNDS = 7
QUICK_ROUNDS = 3


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the table; no CSV file")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"processes per allocator and case (default {ROUNDS}; "
                             f"quick {QUICK_ROUNDS})")
    parser.add_argument("--cases", metavar="NAME,...", default=",".join(CASES),
                        help="some of " + ",".join(CASES))
    parser.add_argument("--allocators", metavar="NAME,...",
                        help="some of " + ",".join(peers.NAMES) + " (default: what is installed)")
    parser.add_argument("--threaded", action="store_true",
                        help="with a second, sleeping thread in every process, so that no "
                             "allocator leaves out its locks")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter samples, to see that it works; no CSV file")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/exec-<date>.csv)")


def run(arguments):
    cases = parse_names("--cases", arguments.cases, CASES)
    count = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.rounds is not None:
        count = positive("--rounds", arguments.rounds)
    chosen = peers.choose(arguments.allocators, peers.ALLOCATORS)
    program = build.program("bench_exec", arguments.build_dir)
    subjects = [allocator.as_subject([program, "--allocator", allocator.subject], path)
                for allocator, path in chosen]

    options = [f"--{name}" for name in ("quick", "threaded") if getattr(arguments, name)]
    figures = rounds.run_rounds(subjects, cases, count, options)
    order = {name: place for place, name in enumerate(peers.NAMES)}
    figures.sort(key=lambda f: (CASES.index(f.case), f.bytes, order[f.allocator]))

    report.publish(NAME, arguments, figures, peers.NAMES, machine.describe())
    return 0
