#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [NEEDED_MODULE...] -- MODULE|FILE.py [ARGUMENT...]

As python -m MODULE ARGUMENT..., or python FILE.py ARGUMENT..., for ctest: where a needed module is not installed it
says so and exits with 77, which ctest shows as skipped. So is a run of pytest in which nothing was to be done.
"""

import importlib.util
import os
import runpy
import sys

SKIPPED = 77
NO_TESTS = 5  # of pytest, also where a file skips itself


def main() -> None:
    if "--" not in sys.argv[1:-1]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    at = sys.argv.index("--")
    needed, command = sys.argv[1:at], sys.argv[at + 1:]
    missing = ["python3-" + name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} lacks {' and '.join(missing)} (scripts/setup --checks installs all)")
        sys.exit(SKIPPED)
    # What the folder of this file holds is not for import by its name.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    sys.argv = command
    if command[0].endswith(".py"):
        runpy.run_path(command[0], run_name="__main__")
    else:
        try:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            sys.exit(SKIPPED if command[0] == "pytest" and end.code == NO_TESTS else end.code)


main()
