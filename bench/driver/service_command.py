# SPDX-License-Identifier: Apache-2.0
"""scripts/bench service: what a service promises, as figures."""
import csv
import json
import pathlib
import shutil
import subprocess
import sys

from . import build, instructions, machine, report
from .errors import BenchError, parse_names

NAME = "service"
HELP = "measure a service: spike, trim storm, slices, idle, steady state; table and CSV file"
PROGRAM_CASES = ["pair", "spike", "storm", "slices", "idle"]
CASES = [*PROGRAM_CASES, "steady", "instructions"]
COLUMNS = ["case", "setting", "figure", "value", "unit"]
TIMEOUT_SECONDS = 900

ARENAS = ("bare", "service", "ceiling")
PAIR_SIZES = (256, 4 << 10, 1 << 20)

TRACE = build.ROOT / "tests" / "data" / "traces" / "det640.csv"
STEADY_THREADS = "2,16,64"
# Field of the replay's JSON: the unit.
STEADY = {"errors": "count", "minor_faults_per_run": "count", "backing_calls_per_run": "count",
          "page_events_per_run": "count", "warmup_passes_needed": "count", "ms_per_run": "ms"}


def add_arguments(parser):
    parser.add_argument("--json", action="store_true",
                        help="print one JSON array instead of the table; no CSV file")
    parser.add_argument("--cases", metavar="NAME,...", default=",".join(CASES),
                        help="some of " + ",".join(CASES))
    parser.add_argument("--quick", action="store_true",
                        help="smaller and shorter, to see that it works; no CSV file")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path,
                        help="write the CSV file here (default: bench/results/service-<date>.csv)")


def run_process(command):
    try:
        done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{command[0]}: no answer within {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        raise BenchError(f"{' '.join(map(str, command))}: exit {done.returncode}")
    return done.stdout


def program_rows(program, case, quick):
    output = run_process([program, "--cases", case, *(["--quick"] if quick else [])])
    for line in output.splitlines():
        one, setting, figure, value, unit = line.split("\t")
        yield one, setting, figure, float(value), unit


def steady_rows(arguments):
    tool = build.program("hearth", arguments.build_dir, "hearth_tool")
    runs = "3" if arguments.quick else "20"
    output = run_process([tool, "replay", "--allocator", "service", "--threads", STEADY_THREADS,
                          "--runs", runs, "--json", TRACE])
    for row in json.loads(output):
        for field, unit in STEADY.items():
            if row[field] is not None:
                yield "steady", f"{row['threads']} threads", field, float(row[field]), unit


def instruction_rows(program):
    if shutil.which("valgrind") is None:
        print("bench: instructions is left out: valgrind is not installed", file=sys.stderr)
        return
    for size in PAIR_SIZES:
        for arena in ARENAS:
            found = instructions.per_operation(
                [program, "--arena", arena, "--bytes", size], None, "--pairs")
            setting = f"{arena}, {report.format_bytes(size)}"
            yield "instructions", setting, "instructions per pair", found, "count"


def measure(arguments, cases):
    program = build.program("bench_service", arguments.build_dir)
    for case in cases:
        print(f"bench: {case}", file=sys.stderr)
        if case == "steady":
            yield from steady_rows(arguments)
        elif case == "instructions":
            yield from instruction_rows(program)
        else:
            yield from program_rows(program, case, arguments.quick)


def format_value(value, unit):
    if unit.startswith("bytes"):
        return f"{value / (1 << 20):.2f}", unit.replace("bytes", "MiB")
    return (f"{value:.0f}" if value == int(value) else f"{value:.3f}"), unit


def table(rows):
    lines = [[case, setting, figure, *format_value(value, unit)]
             for case, setting, figure, value, unit in rows]
    return "\n".join(report.table(COLUMNS, lines))


def write_csv(path, rows, description):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.writelines(f"# {line}\n" for line in description)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*row[:3], f"{row[3]:.3f}", row[4]] for row in rows)


def to_json(rows):
    lines = ["  " + json.dumps(dict(zip(COLUMNS, row))) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]"


def run(arguments):
    cases = parse_names("--cases", arguments.cases, CASES)
    rows = list(measure(arguments, cases))
    description = machine.describe()
    path = report.csv_path(NAME, arguments)
    if path is not None:
        write_csv(path, rows, description)
    if arguments.json:
        print(to_json(rows))
        return 0
    print("\n".join(description), table(rows), sep="\n\n")
    if path is not None:
        print(f"\nwritten: {path}")
    return 0
