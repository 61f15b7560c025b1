# SPDX-License-Identifier: Apache-2.0
"""scripts/bench runtime: what routing costs per node, beside loops written by hand."""
import os
import pathlib
import statistics

from . import build, instructions, machine, peers, report, rounds
from .errors import UsageError, parse_names, positive
from .peers import Allocator

NAME = "runtime"
HELP = "measure what a session costs per node, beside loops on arenas and mallocs"
SERIAL_CASES = {"chain60": 60, "chain600": 600, "layered60": 60, "layered600": 600}
PARALLEL_CASES = ["parallel", "spin"]
CASES = [*SERIAL_CASES, *PARALLEL_CASES]
ROUNDS = 7
QUICK_ROUNDS = 2
# Runs to count instructions of; each is as many nodes as the case has.
FEW = 50
MANY = 250

ALLOCATORS = [Allocator("hearth", subject="hearth"), Allocator("hearth-loop", subject="loop"),
              *(allocator for allocator in peers.ALLOCATORS if allocator.subject == "malloc")]
NAMES = [allocator.name for allocator in ALLOCATORS]


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the table; no CSV file")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"processes per subject and case (default {ROUNDS}; "
                             f"quick {QUICK_ROUNDS})")
    parser.add_argument("--cases", metavar="NAME,...", default=",".join(CASES),
                        help="some of " + ",".join(CASES))
    parser.add_argument("--allocators", metavar="NAME,...",
                        help="some of " + ",".join(NAMES) + " (default: what is installed)")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter samples, to see that it works; no CSV file")
    parser.add_argument("--instructions", action="store_true",
                        help="count the instructions of the serial cases under callgrind instead, "
                             "of hearth and hearth-loop unless --allocators names others")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/runtime-<date>.csv)")


def choose_subjects(arguments, option):
    chosen = peers.choose(option, ALLOCATORS)
    program = build.program("bench_runtime", arguments.build_dir)
    return [allocator.as_subject([str(program), "--subject", allocator.subject], path)
            for allocator, path in chosen]


def run_instructions(arguments, cases):
    serial = [case for case in cases if case in SERIAL_CASES]
    if not serial:
        raise UsageError("--instructions: name a serial case")
    instructions.require_valgrind()
    rows = []
    for subject in choose_subjects(arguments, arguments.allocators or "hearth,hearth-loop"):
        counts = [instructions.per_operation([*subject.command, "--cases", case],
                                             subject.environment, "--runs", FEW, MANY)
                  / SERIAL_CASES[case] for case in serial]
        rows.append([subject.name, "instructions per node", *(f"{count:.1f}" for count in counts)])
    print("\n".join(report.table(["allocator", "figure", *serial], rows)))
    return 0


def measure(subjects, cases, count, options):
    """Only the runtime runs on several threads."""
    figures = []
    serial = [case for case in cases if case in SERIAL_CASES]
    parallel = [case for case in cases if case in PARALLEL_CASES]
    if serial:
        figures += rounds.run_rounds(subjects, serial, count, options)
    runtime = [subject for subject in subjects if subject.name == "hearth"]
    if parallel and runtime:
        figures += rounds.run_rounds(runtime, parallel, count, options)
    return figures


def routing_lines(figures):
    """What the runtime adds to the arenas, round by round."""
    by_key = {(figure.case, figure.allocator): figure.rounds for figure in figures}
    lines = []
    for case in SERIAL_CASES:
        ours, loop = (by_key.get((case, name)) for name in ("hearth", "hearth-loop"))
        if ours and loop:
            added = statistics.median(one - other for one, other in zip(ours, loop))
            lines.append(f"{case}: routing adds {added:.0f} ns per node")
    return lines


def efficiency_lines(figures, cores):
    """Spinning kernels: the work of one core over what the cores that were used could do."""
    spin = {figure.threads: figure for figure in figures if figure.case == "spin"}
    if 1 not in spin:
        return []
    lines = []
    for threads, figure in spin.items():
        if threads == 1:
            continue
        # Round by round: the work is measured once in each.
        ratios = sorted(one / (many * min(threads, cores))
                        for one, many in zip(spin[1].rounds, figure.rounds))
        lines.append(f"spin on {threads} threads, {cores} cores: efficiency "
                     f"{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return lines


def run(arguments):
    cases = parse_names("--cases", arguments.cases, CASES)
    if arguments.instructions:
        return run_instructions(arguments, cases)
    count = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.rounds is not None:
        count = positive("--rounds", arguments.rounds)
    subjects = choose_subjects(arguments, arguments.allocators)

    figures = measure(subjects, cases, count, ["--quick"] if arguments.quick else [])
    order = {name: place for place, name in enumerate(NAMES)}
    figures.sort(key=lambda f: (CASES.index(f.case), f.threads, f.bytes, order[f.allocator]))
    report.publish(NAME, arguments, figures, NAMES, machine.describe())
    if not arguments.json:
        cores = len(os.sched_getaffinity(0))
        print("\n".join(["", *routing_lines(figures), *efficiency_lines(figures, cores)]))
    return 0
