# SPDX-License-Identifier: Apache-2.0
"""scripts/bench plans: what an allocation that a plan serves costs beside a list hit, and planning."""
import json
import os
import pathlib
import subprocess

from . import build, instructions, machine, report
from .errors import BenchError

NAME = "plans"
HELP = "measure allocations that a plan serves beside list hits, and planning; table and CSV file"
STORES = ("lists", "spans", "plans")
PAIR = ["figure", "sequence", "buffers", "store", "ns", "ns_min_round", "ns_max_round", "plan_share"]
PLANNING = ["figure", "sequence", "buffers", "planned_from_run", "slice_us", "last_us", "last_cold_us",
            "ends_ms", "alloc_or_free_us", "plan_over_bound"]
TRACES = build.ROOT / "tests" / "data" / "traces"
SEQUENCES = ("det640", "rec")
# Runs to count instructions of.
FEW = 20
MANY = 120


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the tables; no CSV file")
    parser.add_argument("--quick", action="store_true",
                        help="few rounds, to see that it works; no CSV file")
    parser.add_argument("--rounds", metavar="N", type=int, default=21,
                        help="rounds in which the stores take turns (default: 21)")
    parser.add_argument("--instructions", action="store_true",
                        help="count instructions per alloc and free under callgrind instead")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/plans-<date>.csv)")


def measure(program, rounds):
    done = subprocess.run([program, "--rounds", str(rounds),
                           *(TRACES / f"{name}.csv" for name in SEQUENCES)],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{program}: exit {done.returncode}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(PAIR if row[0] == "pair" else PLANNING, row)) for row in rows]


def pair_table(rows):
    lines = []
    for name in dict.fromkeys(row["sequence"] for row in rows):
        found = {row["store"]: row for row in rows if row["sequence"] == name}
        ns = {store: float(found[store]["ns"]) for store in STORES}
        least = {store: float(found[store]["ns_min_round"]) for store in STORES}
        lines.append([name, found["plans"]["buffers"], *(f"{ns[store]:.1f}" for store in STORES),
                      f"{ns['plans'] / ns['lists']:.2f}", f"{least['plans'] / least['lists']:.2f}",
                      f"{float(found['plans']['plan_share']):.1%}"])
    return report.table(["sequence", "buffers", *STORES, "plans/lists", "of the smallest", "planned"],
                        lines)


def planning_table(rows):
    return report.table(["sequence", "buffers", "planned from run", "slice us", "last us", "last, cold us",
                         "all ms", "alloc, free us", "plan/bound"],
                        [[row[key] for key in PLANNING[1:]] for row in rows])


def run_instructions(program):
    """Instructions of one alloc with its free; the untimed runs before are in both counts."""
    instructions.require_valgrind()
    lines = []
    for name in (*SEQUENCES, None):
        trace = [TRACES / f"{name}.csv"] if name else []
        cells = []
        for store in STORES:
            counts = [instructions.count([str(part) for part in (program, "--store", store, "--runs",
                                                                 runs, *trace)], dict(os.environ))
                      for runs in (FEW, MANY)]
            pairs = BUFFERS[name] * (MANY - FEW)
            cells.append(f"{(counts[1] - counts[0]) / pairs:.1f}")
        lines.append([name or "made up", str(BUFFERS[name]), *cells])
    print("\n".join(report.table(["sequence", "buffers", *STORES], lines)))
    return 0


# Of one run; exported allocations are no part of the sequences.
BUFFERS = {"det640": 378, "rec": 397, None: 400}


def write_csv(path, rows, description):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.writelines(f"# {line}\n" for line in description)
        for columns in (PAIR, PLANNING):
            out.write(",".join(columns) + "\n")
            out.writelines(",".join(row.values()) + "\n" for row in rows if list(row) == columns)


def run(arguments):
    program = build.program("bench_plans", arguments.build_dir)
    if arguments.instructions:
        return run_instructions(program)
    rows = measure(program, 3 if arguments.quick else arguments.rounds)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    description = machine.describe()
    pairs = [row for row in rows if row["figure"] == "pair"]
    planning = [row for row in rows if row["figure"] == "planning"]
    print("\n".join(description), "ns per alloc and free, median of the rounds",
          "\n".join(pair_table(pairs)), "\n".join(planning_table(planning)), sep="\n\n")
    path = report.csv_path(NAME, arguments)
    if path is not None:
        write_csv(path, rows, description)
        print(f"\nwritten: {path}")
    return 0
