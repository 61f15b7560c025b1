# SPDX-License-Identifier: Apache-2.0
"""scripts/bench exec: the execution arena against the mallocs of this machine."""
import datetime
import pathlib
import sys

from . import build, machine, peers, report, rounds
from .errors import UsageError, parse_names, positive

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


def choose(option):
    """(allocator, library path) of what is to be measured and installed."""
    names = peers.default_names()
    if option is not None:
        names = parse_names("--allocators", option, peers.NAMES)
    libraries = peers.installed_libraries()
    chosen = []
    for name in names:
        allocator = peers.BY_NAME[name]
        path = libraries.get(allocator.library)
        if allocator.library is None or path is not None:
            chosen.append((allocator, path))
        elif option is not None:
            raise UsageError(f"--allocators: {name} needs {allocator.library}, not installed")
        else:
            print(f"bench: {name} is not installed ({allocator.library})", file=sys.stderr)
    return chosen


def csv_path(arguments):
    if arguments.output is not None:
        return arguments.output
    if arguments.json or arguments.quick:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    return build.ROOT / "bench" / "results" / f"exec-{now:%Y-%m-%d-%H%M}.csv"


def run(arguments):
    cases = parse_names("--cases", arguments.cases, CASES)
    count = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.rounds is not None:
        count = positive("--rounds", arguments.rounds)
    subjects = choose(arguments.allocators)
    program = build.program("bench_exec", arguments.build_dir)

    options = [f"--{name}" for name in ("quick", "threaded") if getattr(arguments, name)]
    figures = rounds.run_rounds(program, subjects, cases, count, options)
    order = {name: place for place, name in enumerate(peers.NAMES)}
    figures.sort(key=lambda f: (CASES.index(f.case), f.bytes, order[f.allocator]))

    description = machine.describe()
    path = csv_path(arguments)
    if path is not None:
        report.write_csv(path, figures, description)
    if arguments.json:
        print(report.to_json(figures))
    else:
        print(report.text(figures, peers.NAMES, description))
        if path is not None:
            print(f"\nwritten: {path}")
    return 0
