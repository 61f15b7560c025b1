# SPDX-License-Identifier: Apache-2.0
"""NumPy's own core tests under hearth's allocator.

Runs them without it, with it, and with all of NumPy's blocks served by it (a threshold of one byte), each in a process
of its own, and compares: what fails with it must fail without it as well. Prints the counts and the allocator's
figures. Exit 0: nothing new failed; 1: something did; 77: NumPy or its tests are missing.

    python3 run_numpy_suite.py [--only test_multiarray.py ...] [--runs plain,default,every] [--slow]

Tests that NumPy marks as slow are left out, as numpy.test() does, unless asked for. One of them runs the whole suite
once more under an allocator of its own, but not where another one is in use already.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

RUNS = {
    "plain": None,
    "default": {},
    "every": {"threshold": 1},
}


def test_folder():
    try:
        import numpy
        import pytest  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    root = pathlib.Path(numpy.__file__).parent
    for folder in (root / "_core" / "tests", root / "core" / "tests"):
        if (folder / "test_multiarray.py").exists():
            return folder
    print("skipped: NumPy is installed without its tests")
    sys.exit(77)


def run(name, files, folder, extra):
    """One run in a process and a folder of its own: (record, seconds)."""
    with tempfile.TemporaryDirectory() as scratch:
        record = pathlib.Path(scratch, "record.json")
        environment = dict(os.environ, HEARTH_SUITE_HANDLER=json.dumps(RUNS[name]), HEARTH_SUITE_RECORD=str(record))
        here = str(pathlib.Path(__file__).resolve().parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        tests = [str(folder / file) for file in files] if files else [str(folder)]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "numpy_suite_plugin",
             *extra, *tests],
            cwd=scratch, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        seconds = time.monotonic() - began
        if not record.exists():
            print(done.stdout[-5000:])
            sys.exit(f"run '{name}' ended with {done.returncode} and left no record")
        return json.loads(record.read_text()), seconds, done.stdout


def failures(record):
    return {test for test, outcome in record["outcomes"].items() if outcome == "failed"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="these files of the suite alone")
    parser.add_argument("--runs", default=",".join(RUNS), help="which runs, separated by commas")
    parser.add_argument("--keyword", help="pytest's -k")
    parser.add_argument("--slow", action="store_true", help="also what NumPy marks as slow")
    options = parser.parse_args()
    folder = test_folder()
    extra = ["-k", options.keyword] if options.keyword else []
    extra += [] if options.slow else ["-m", "not slow"]
    names = options.runs.split(",")
    for name in names:
        if name not in RUNS:
            parser.error(f"no run is called {name!r}: {', '.join(RUNS)}")

    allowed = None
    bad = False
    for name in names:
        record, seconds, output = run(name, options.only, folder, extra)
        counts = collections.Counter(record["outcomes"].values())
        print(f"{name:8} {seconds:6.1f} s  " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
        if "stats" in record:
            print("         " + ", ".join(f"{key} {value}" for key, value in record["stats"].items()))
        failed = failures(record)
        if name == "plain":
            allowed = failed
            for test in sorted(failed):
                print(f"         fails by itself: {test}")
            continue
        if counts["passed"] == 0:
            print("         no test passed")
            bad = True
        if record["elsewhere"]:
            print(f"         {record['elsewhere']} tests ran without the allocator")
            bad = True
        for test in sorted(failed - (allowed or set())):
            print(f"         fails with hearth: {test}")
            bad = True
        if failed - (allowed or set()):
            print(output[-20000:])
        sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
