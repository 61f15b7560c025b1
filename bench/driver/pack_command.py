# SPDX-License-Identifier: Apache-2.0
"""scripts/bench pack: the packer of run plans beside published heuristics."""
import csv
import io
import json
import pathlib
import statistics
import subprocess

from . import build, machine, report
from .errors import BenchError

NAME = "pack"
HELP = "measure the packer: totals over the lower bound, work and time; table and CSV file"
COLUMNS = ["instance", "buffers", "who", "method", "total_over_bound", "work", "passes", "ms"]
TRACES = build.ROOT / "tests" / "data" / "traces"


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the table; no CSV file")
    parser.add_argument("--quick", action="store_true",
                        help="one made up run of each kind, to see that it works; no CSV file")
    parser.add_argument("--seeds", metavar="N", type=int, default=5,
                        help="made up runs of each kind and size (default: 5)")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/pack-<date>.csv)")


def measure(arguments):
    program = build.program("bench_pack", arguments.build_dir)
    seeds = 1 if arguments.quick else arguments.seeds
    done = subprocess.run([program, "--seeds", str(seeds), *sorted(TRACES.glob("*.csv"))],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{program}: exit {done.returncode}")
    return list(csv.DictReader(io.StringIO(done.stdout), COLUMNS, delimiter="\t"))


def kind_of(row):
    """Runs that differ in their seed only share a line: training#3 is one of training."""
    return row["instance"].split("#")[0], row["buffers"]


def table(rows):
    who = list(dict.fromkeys(row["who"] for row in rows))
    lines = []
    for kind in dict.fromkeys(map(kind_of, rows)):
        line = list(kind)
        for one in who:
            found = [row for row in rows if kind_of(row) == kind and row["who"] == one]
            ratio = statistics.mean(float(row["total_over_bound"]) for row in found)
            took = statistics.mean(float(row["ms"]) for row in found)
            line.append(f"{ratio:.4f} {took:.2f}")
        lines.append(line)
    return "\n".join(report.table(["run", "buffers", *who], lines))


def run(arguments):
    rows = measure(arguments)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    description = machine.describe()
    print("\n".join(description), "total over bound, mean; ms of processor time, mean",
          table(rows), sep="\n\n")
    path = report.csv_path(NAME, arguments)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as out:
            out.writelines(f"# {line}\n" for line in description)
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"\nwritten: {path}")
    return 0
