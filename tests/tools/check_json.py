#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_json.py CHECK ARGUMENT...: one check of the hearth command's JSON on standard input."""
import json
import os
import sys

REPLAY_KEYS = {
    "trace", "name", "allocator", "backing", "threads", "trace_threads", "warmup", "runs",
    "engine_runs_per_pass", "errors", "minor_faults_per_run", "backing_calls_per_run",
    "page_events_per_run", "ops_per_run", "ms_per_run", "ns_per_op", "peak_live_bytes",
    "footprint_bytes", "footprint_over_peak_live", "warmup_passes_needed", "consumers", "hold",
    "store", "rss_bytes", "fresh_threads", "runs_told",
    "inject_percent", "inject_kinds", "seed", "faults_injected",
}

# Of allocators that have arenas; null for the others.
ARENA_KEYS = {
    "io_storages_created", "io_footprint_bytes", "io_peak_bytes", "io_retained_bytes",
    "io_leased_buffers", "io_reserved_buffers", "exec_storages_created", "exec_footprint_bytes",
    "exec_peak_footprint_bytes", "exec_footprint_over_peak_live",
}

# Of arenas with plans; null for the others.
PLAN_KEYS = {
    "plan_share", "plan_share_of_all", "plan_over_bound", "plan_blocked", "plans_made", "plans",
    "slab_bytes", "idle_exec_bytes",
}

HEARTH = ("hearth", "service")
STORES = ("lists", "spans", "plans")

SCENARIO_KEYS = {
    "scenario", "threads", "nodes", "outputs", "warmup", "runs", "seed", "blas", "errors",
    "payload_copies", "backing_calls_per_run", "allowed_backing_calls", "minor_faults_per_run",
    "process_faults_per_run", "page_events_per_run", "new_output_faults_per_run",
    "allowed_output_faults", "new_output_page_events_per_run", "execution_storages_created",
    "io_storages_created", "footprint_bytes", "threads_used", "warmup_runs_needed", "ms_per_run",
    "peak_live_bytes", "expected_peak_bytes", "least_peak_bytes", "most_peak_bytes",
    "execution_peak_bytes", "io_peak_bytes", "wrong_peaks", "reused_in_place", "remote_deaths",
    "outputs_kept", "outputs_changed", "outputs_bit_identical", "trimmed_bytes",
    "retained_after_trim_bytes", "failed",
}

# Logical peak, engine runs and trace threads of each shipped trace, counted independently.
TRACES = {
    "cls": (487464, 2, 1), "det320": (11673600, 2, 1), "det640": (46694400, 2, 1),
    "det640_parallel": (46694400, 2, 2), "detvar": (46694400, 12, 1), "rec": (2949120, 2, 1),
    "vad": (10256, 4, 1),
}

# Allocations per run that are not exported.
ALLOCS = {"cls": 183, "det640": 378, "det640_parallel": 401, "detvar": 378, "rec": 397, "vad": 53}

# Exported allocations per run.
OUTPUTS = {"vad": 2}

# Exported allocations that one clone can have out at a time, of sizes that cannot share storage.
RESERVED = {"vad": 2, "detvar": 2}

# What the project promises; the others have no bound of their own.
FOOTPRINT = {"det640": 2.1, "detvar": 2.5}


def check_plans(row):
    """Only arenas have a store, and only one of them plans."""
    if row["store"] != "plans":
        assert all(row[key] is None for key in PLAN_KEYS), row
        return
    assert all(row[key] is not None for key in PLAN_KEYS), row
    assert 0 <= row["plan_share_of_all"] <= row["plan_share"] <= 1, row
    assert row["plan_over_bound"] == 0 or row["plan_over_bound"] >= 1, row
    assert row["plans"] <= row["plans_made"] and (row["slab_bytes"] > 0 or row["plans"] == 0), row


def check_row(row, path, allocator, threads, runs):
    keys = REPLAY_KEYS | ARENA_KEYS | PLAN_KEYS
    assert set(row) == keys, sorted(set(row) ^ keys)
    name = os.path.basename(path)[:-len(".csv")]
    peak, engine_runs, trace_threads = TRACES[name]
    assert row["trace"] == path and row["name"] == name, row
    assert row["allocator"] == allocator and row["threads"] == threads, row
    assert row["runs"] == runs and row["engine_runs_per_pass"] == engine_runs, row
    assert row["trace_threads"] == trace_threads and row["peak_live_bytes"] == peak, row
    assert row["errors"] == 0, row
    assert row["rss_bytes"] is None or row["rss_bytes"] > 0, row
    check_plans(row)
    assert row["ms_per_run"] > 0 and row["ns_per_op"] >= 0, row
    ratio = row["footprint_bytes"] / (peak * threads)
    assert abs(row["footprint_over_peak_live"] - ratio) <= 1e-6 * max(ratio, 1), row
    if allocator in HEARTH:
        assert row["footprint_over_peak_live"] >= 1, row
        assert row["footprint_over_peak_live"] <= FOOTPRINT.get(name, float("inf")), row
        assert row["exec_footprint_over_peak_live"] >= 1, row
        assert row["exec_footprint_bytes"] <= row["exec_peak_footprint_bytes"], row
        assert isinstance(row["backing"], str) and row["store"] in STORES, row
    else:
        assert row["store"] is None, row
        assert row["backing"] is None and row["page_events_per_run"] is None, row
        assert all(row[key] is None for key in ARENA_KEYS), row
        assert row["backing_calls_per_run"] == row["ops_per_run"], row


def replay(rows, path, allocator, threads, runs, lenient):
    """lenient: do not check that warm runs cost nothing."""
    threads = [int(n) for n in threads.split(",")]
    assert [row["threads"] for row in rows] == threads, rows
    for row in rows:
        check_row(row, path, allocator, row["threads"], int(runs))
        if allocator == "hearth":
            assert row["backing_calls_per_run"] == 0 and row["page_events_per_run"] == 0, row
            assert row["io_storages_created"] == 0 and row["exec_storages_created"] == 0, row
            assert row["io_footprint_bytes"] > 0 and row["exec_footprint_bytes"] > 0, row
            if row["consumers"] == 0:
                reserved = RESERVED.get(row["name"], 1) * row["threads"]
                assert row["io_reserved_buffers"] == reserved, row
        if allocator == "hearth" and lenient != "yes":
            # A stray fault per ten runs is the kernel's business.
            assert row["minor_faults_per_run"] <= 0.1, row
            assert row["warmup_passes_needed"] in (0, 1, 2, 3), row


def stores(rows, path, subjects):
    """subjects: ALLOCATOR[:STORE],... in the order of the rows."""
    found = [":".join(filter(None, (row["allocator"], row["store"]))) for row in rows]
    assert ",".join(found) == subjects, found
    for row in rows:
        check_row(row, path, row["allocator"], row["threads"], row["runs"])


def planned(rows, lenient):
    """From the third run of a kind on: all is served by plans, and hardly more is held than is live."""
    for row in rows:
        check_plans(row)
        measured = row["runs"] * row["engine_runs_per_pass"] * row["threads"]
        assert row["store"] == "plans" and row["errors"] == 0, row
        assert row["plan_share_of_all"] == 1 and row["plan_blocked"] == 0, row
        assert row["plan_over_bound"] <= 1.05 and row["exec_storages_created"] == 0, row
        if row["name"] in ("cls", "vad"):
            more = row["exec_peak_footprint_bytes"] - row["peak_live_bytes"] * row["threads"]
            assert more <= (2 << 20) * row["threads"], row
        else:
            assert row["exec_footprint_over_peak_live"] <= 1.05, row
        # A service's maintenance may purge once what was given back for the slab.
        calls = row["backing_calls_per_run"] * measured
        assert calls <= (1.5 if row["allocator"] == "service" else 0), row
        assert lenient == "yes" or row["minor_faults_per_run"] <= 0.1, row


def one_slab(rows):
    """Between runs there is the slab, and nothing else."""
    for row in rows:
        assert row["threads"] == 1 and row["plans"] >= 1, row
        assert 0 < row["idle_exec_bytes"] <= row["slab_bytes"], row


def injected(rows, path, percent, kinds, seed):
    """As many faults as were asked for, within what chance allows."""
    for row in rows:
        allocs = (ALLOCS[row["name"]] * row["engine_runs_per_pass"] * row["runs"])
        wanted = allocs * float(percent) / 100
        assert row["trace"] == path and row["errors"] == 0 and row["runs_told"] is True, row
        assert abs(row["inject_percent"] - float(percent)) < 1e-9, row
        assert row["inject_kinds"] == kinds and row["seed"] == int(seed), row
        # A swap takes two allocations, and some faults are impossible where they were drawn.
        assert row["faults_injected"] >= wanted * 0.6 - 4 * wanted ** 0.5 - 1, (row, wanted)
        assert row["faults_injected"] <= wanted + 4 * wanted ** 0.5 + 1, (row, wanted)
        check_plans(row)


def served(rows, least, least_of_all):
    """Faults or not, plans serve so many of the allocations in planned runs; and, with the runs that are recorded
    because others did not go as planned, of all."""
    for row in rows:
        assert row["errors"] == 0 and row["plan_share"] >= float(least), row
        assert row["plan_share_of_all"] >= float(least_of_all), row


def same(rows, path, wanted, *keys):
    """Whether these figures are those of the rows in the file `path`; wanted: yes or no."""
    with open(path, encoding="utf-8") as file:
        others = json.load(file)
    found = [[row[key] for key in keys] for row in rows]
    expected = [[other[key] for key in keys] for other in others]
    assert (found == expected) == (wanted == "yes"), (found, expected)


def consumers(rows, path, allocator, threads, runs, number, hold, lenient):
    """As replay, and what consumers hold is all that is out."""
    replay(rows, path, allocator, threads, runs, lenient)
    for row in rows:
        assert row["consumers"] == int(number) and row["hold"] == int(hold), row
        assert int(hold) == 0 or row["warmup"] >= int(hold) + 3, row
        if allocator == "hearth":
            held = int(hold) * OUTPUTS.get(row["name"], 1) * row["threads"]
            assert row["io_leased_buffers"] == held, row
            assert row["io_peak_bytes"] <= row["io_footprint_bytes"], row
            assert row["io_retained_bytes"] < row["io_footprint_bytes"] or held == 0, row


def longer_hold(rows, path):
    """The rows in the file `path` hold one run more. They may need one more I/O buffer for each
    output that is held, and the execution arenas must not notice."""
    with open(path, encoding="utf-8") as file:
        others = json.load(file)
    for row, other in zip(rows, others, strict=True):
        assert row["name"] == other["name"] and row["threads"] == other["threads"], (row, other)
        assert other["hold"] == row["hold"] + 1, (row, other)
        more = other["io_reserved_buffers"] - row["io_reserved_buffers"]
        held = other["io_leased_buffers"] - row["io_leased_buffers"]
        assert 0 < more <= held, (row, other)
        assert row["exec_footprint_bytes"] == other["exec_footprint_bytes"], (row, other)
        assert other["io_storages_created"] == other["exec_storages_created"] == 0, other


def row(rows, *pairs):
    """row KEY=VALUE...: each row has these numbers."""
    for wanted in pairs:
        key, _, value = wanted.partition("=")
        assert [entry[key] for entry in rows] == [int(value)] * len(rows), rows


def backing(rows, name):
    assert [row["backing"] for row in rows] == [name], rows


def peak(rows, wanted):
    assert [row["peak_live_bytes"] for row in rows] == [int(wanted)], rows
    assert [row["errors"] for row in rows] == [0], rows


def errors(rows):
    assert all(row["errors"] > 0 for row in rows), rows


def check_scenario(row, warmup, runs, lenient):
    assert set(row) == SCENARIO_KEYS, sorted(set(row) ^ SCENARIO_KEYS)
    serial, kept = row["threads"] == 1, row["scenario"] == "kept"
    assert row["nodes"] >= 60 and row["warmup"] == warmup and row["runs"] == runs, row
    assert row["errors"] == 0 and row["failed"] is None and row["payload_copies"] == 0, row
    assert row["outputs_bit_identical"] is True and row["outputs_changed"] == 0, row
    assert row["outputs"] == (3 if row["scenario"] == "large-intermediates" else 4), row
    # The three runs that are followed event by event keep theirs as well.
    assert row["outputs_kept"] == (row["outputs"] * (warmup + runs + 3) if kept else 0), row
    assert row["allowed_backing_calls"] == (row["outputs"] if kept else 0), row
    assert row["backing_calls_per_run"] <= row["allowed_backing_calls"], row
    assert row["io_storages_created"] <= row["allowed_backing_calls"] * runs, row
    assert row["execution_storages_created"] == 0 and row["page_events_per_run"] == 0, row
    assert kept or row["new_output_page_events_per_run"] == 0, row
    if lenient != "yes":
        # A stray fault per ten runs is the kernel's business.
        assert row["minor_faults_per_run"] <= 0.1, row
        assert row["new_output_faults_per_run"] <= row["allowed_output_faults"], row
    assert row["warmup_runs_needed"] in (0, 1, 2, 3), row
    peak = row["execution_peak_bytes"] + row["io_peak_bytes"]
    assert row["peak_live_bytes"] == peak and row["wrong_peaks"] == 0, row
    assert row["least_peak_bytes"] <= row["expected_peak_bytes"] <= row["most_peak_bytes"], row
    if serial:
        assert peak == row["expected_peak_bytes"] and row["threads_used"] == 1, row
        assert row["remote_deaths"] == 0, row
    else:
        assert row["least_peak_bytes"] <= peak <= row["most_peak_bytes"], row
        assert 1 <= row["threads_used"] <= row["threads"] + 1, row
    assert (row["trimmed_bytes"] is None) == (row["scenario"] != "trim"), row
    if row["scenario"] == "trim":
        assert row["trimmed_bytes"] > 4 << 20 and row["retained_after_trim_bytes"] == 0, row
    if row["scenario"] == "large-intermediates":
        assert row["execution_peak_bytes"] > 1000 * row["io_peak_bytes"], row


def scenarios(rows, names, threads, warmup, runs, lenient):
    """lenient: do not check page faults."""
    wanted = [(name, int(n)) for name in names.split(",") for n in threads.split(",")]
    assert [(row["scenario"], row["threads"]) for row in rows] == wanted, rows
    for row in rows:
        check_scenario(row, int(warmup), int(runs), lenient)


def failed(rows, figure):
    """Every row names the figure that is not as promised."""
    assert rows and all(row["failed"].startswith(figure + " is ") for row in rows), rows


def doctor(report):
    assert set(report) == {"hearth", "findings"}, report
    names = [finding["name"] for finding in report["findings"]]
    assert len(set(names)) == len(names), names
    wanted = {"hearth", "HEARTH_CONF", "backing", "jemalloc", "page size", "thp", "thp defrag",
              "overcommit", "max_map_count", "address space limit", "locked memory limit",
              "cgroup memory limit", "membarrier", "cores", "cpu quota"}
    assert wanted <= set(names), wanted - set(names)
    for entry in report["findings"]:
        assert set(entry) == {"name", "level", "value", "advice"}, entry
        assert entry["level"] in ("ok", "note", "warn") and entry["value"], entry
        # Who reads a note or a warning must be told what to do; "ok" needs no advice.
        assert (entry["advice"] != "") == (entry["level"] != "ok"), entry


def finding(report, name, level, text):
    entry = next(f for f in report["findings"] if f["name"] == name)
    assert entry["level"] == level, entry
    assert text in entry["value"], entry


def main():
    checks = {f.__name__: f for f in (
        replay, stores, planned, one_slab, injected, served, same, consumers, longer_hold, row,
        backing, peak, errors, doctor, finding, scenarios, failed)}
    try:
        checks[sys.argv[1]](json.load(sys.stdin), *sys.argv[2:])
    except (AssertionError, KeyError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


main()
