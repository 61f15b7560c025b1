# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per subcommand, each with NAME, HELP, add_arguments() and run()."""
import argparse
import sys

from . import (exec_command, instructions, io_command, pack_command, plans_command,
               runtime_command, service_command)
from .errors import BenchError, UsageError

COMMANDS = (exec_command, io_command, service_command, runtime_command, pack_command,
            plans_command, instructions)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Benchmarks of hearth and its peers; see docs/bench.md.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        sub.add_argument("--build-dir", metavar="DIR",
                         help="use the programs of this build and build nothing "
                              "(default: configure and build the release preset)")
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse(argv)
    try:
        return arguments.run(arguments)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
