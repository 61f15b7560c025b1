# SPDX-License-Identifier: Apache-2.0
"""Figures as a table for people, as CSV and as JSON."""
import csv
import datetime
import json
import statistics

from .build import ROOT

# A figure whose rounds differ by more than this is marked in the table.
NOISY = 0.25


def format_bytes(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def format_ns(ns):
    if ns < 100:
        return f"{ns:.1f}"
    return f"{ns:,.0f}".replace(",", " ")


def format_ratio(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def table(heading, rows):
    """Lines of a table: the first two columns flush left, the others flush right."""
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    lines = []
    for row in [heading, ["-" * width for width in widths], *rows]:
        cells = [text.ljust(width) if i < 2 else text.rjust(width)
                 for i, (text, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return lines


def by_case(figures):
    """{(case, bytes, threads): {allocator: figure}} in the order of the figures."""
    grouped = {}
    for figure in figures:
        grouped.setdefault((figure.case, figure.bytes, figure.threads), {})[
            figure.allocator] = figure
    return grouped


def heading(grouped):
    tells_threads = any(threads is not None for _, _, threads in grouped)
    return ["case", "size", *(["threads"] if tells_threads else [])]


def row_start(key):
    case, size, threads = key
    return [case, format_bytes(size), *([str(threads)] if threads is not None else [])]


def time_lines(grouped, names):
    rows = []
    for key, row in grouped.items():
        cells = []
        for name in names:
            if name not in row:
                cells.append("-")
            else:
                mark = "~" if row[name].spread > NOISY else ""
                cells.append(mark + format_ns(row[name].ns))
        rows.append([*row_start(key), *cells])
    return ["ns per operation, median of the rounds; ~ marks figures that varied by more than "
            f"{NOISY:.0%}", "", *table([*heading(grouped), *names], rows)]


def ratio_lines(grouped, names):
    """Hearth's time over each peer's, and over the fastest peer's."""
    peers = [name for name in names if name != "hearth"]
    rows = []
    for key, row in grouped.items():
        measured = {name: row[name].ns for name in peers if name in row}
        if "hearth" not in row or not measured:
            continue
        ours = row["hearth"].ns
        fastest = min(measured, key=measured.get)
        cells = [format_ratio(ours / measured[name]) if name in measured else "-" for name in peers]
        rows.append([*row_start(key), *cells, format_ratio(ours / measured[fastest]), fastest])
    if not rows:
        return []
    return ["hearth's time over the peer's; below 1 hearth is faster", "",
            *table([*heading(grouped), *peers, "over fastest", "which is"], rows)]


def evenness_lines(figures):
    """How far the cost of hearth's pair depends on the size."""
    pairs = [f for f in figures if f.case == "pair" and f.allocator == "hearth"]
    if len(pairs) < 2:
        return []
    # Round by round: sizes that were measured in the same process met the same disturbances.
    ratios = [max(times) / min(times) for times in zip(*(f.rounds for f in pairs))]
    most, least = max(pairs, key=lambda f: f.ns), min(pairs, key=lambda f: f.ns)
    return [f"hearth pair, largest over smallest: {most.ns / least.ns:.2f} "
            f"({format_bytes(most.bytes)} {format_ns(most.ns)} ns, "
            f"{format_bytes(least.bytes)} {format_ns(least.ns)} ns); "
            f"within one process {statistics.median(ratios):.2f}"]


def text(figures, names, description):
    grouped = by_case(figures)
    present = [name for name in names if any(f.allocator == name for f in figures)]
    parts = [description, time_lines(grouped, present), ratio_lines(grouped, present),
             evenness_lines(figures)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def key_fields(figure):
    """What tells a figure from others, by column; threads only where the program tells."""
    fields = {"case": figure.case, "bytes": figure.bytes}
    if figure.threads is not None:
        fields["threads"] = figure.threads
    fields["allocator"] = figure.allocator
    return fields


def csv_path(command, arguments):
    """Where the figures of a run go, or None."""
    if arguments.output is not None:
        return arguments.output
    if arguments.json or arguments.quick:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    return ROOT / "bench" / "results" / f"{command}-{now:%Y-%m-%d-%H%M}.csv"


def write_csv(path, figures, description):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as out:
        for line in description:
            out.write(f"# {line}\n")
        writer = csv.writer(out, lineterminator="\n")
        keys = list(key_fields(figures[0])) if figures else []
        writer.writerow([*keys, "ns", "ns_min_round", "ns_max_round", "ns_p10", "ns_p90", "rounds"])
        for f in figures:
            times = (f.ns, min(f.rounds), max(f.rounds), f.low, f.high)
            writer.writerow([*key_fields(f).values(), *(f"{t:.3f}" for t in times), len(f.rounds)])


def to_json(figures):
    rows = [{**key_fields(f), "ns": round(f.ns, 3)} for f in figures]
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]"


def publish(command, arguments, figures, names, description):
    """Write and print the figures as the options say."""
    path = csv_path(command, arguments)
    if path is not None:
        write_csv(path, figures, description)
    if arguments.json:
        print(to_json(figures))
        return
    print(text(figures, names, description))
    if path is not None:
        print(f"\nwritten: {path}")
