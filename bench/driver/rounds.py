# SPDX-License-Identifier: Apache-2.0
"""Run one process per allocator, case and round, interleaved, and gather the figures."""
import statistics
import subprocess
import sys
from dataclasses import dataclass

from .errors import BenchError

TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Figure:
    """One case at one size with one allocator, over all rounds. Times in ns per operation."""
    case: str
    bytes: int
    allocator: str
    rounds: tuple   # each round's figure
    low: float      # smallest 10th percentile of a round
    high: float     # largest 90th percentile of a round

    @property
    def ns(self):
        return statistics.median(self.rounds)

    @property
    def spread(self):
        """Half the rounds lie within a band of this width, relative to the median."""
        if len(self.rounds) < 2:
            return 0.0
        quarters = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return (quarters[2] - quarters[0]) / self.ns if self.ns else 0.0


def parse_output(text, expected_origin):
    """Rows of (case, bytes, ns, low, high), after checking whose malloc was measured."""
    rows = []
    for line in text.splitlines():
        if line.startswith("# malloc="):
            origin = line.partition("=")[2]
            if expected_origin not in origin:
                raise BenchError(f"malloc comes from {origin}, expected {expected_origin}")
        else:
            case, size, *times = line.split("\t")
            rows.append((case, int(size), *map(float, times)))
    return rows


def run_process(program, allocator, library, options):
    command = [str(program), "--allocator", allocator.subject, *options]
    try:
        done = subprocess.run(command, env=allocator.environment(library), text=True,
                              capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"no answer within {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        raise BenchError(f"exit {done.returncode}: {done.stderr.strip()}")
    # The dynamic linker only warns when it cannot preload a library.
    return parse_output(done.stdout, allocator.expected_origin())


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def schedule(subjects, cases, rounds):
    """
    (round, case, allocator, library) in the order of running. Allocators alternate within a case,
    seconds apart, because a shared machine is fast and slow for seconds at a time; each round
    starts with another allocator, so that none always comes first.
    """
    for number in range(rounds):
        shift = number % len(subjects)
        for case in cases:
            for allocator, library in subjects[shift:] + subjects[:shift]:
                yield number, case, allocator, library


def run_rounds(program, subjects, cases, rounds, options):
    """
    Figures of all subjects, a list of (allocator, library path). An allocator that fails is left
    out from then on, with a note; if it is hearth, that is an error.
    """
    samples = {}
    failed = set()
    for number, case, allocator, library in schedule(subjects, cases, rounds):
        if allocator.name in failed:
            continue
        progress(f"round {number + 1} of {rounds}: {case}, {allocator.name}")
        try:
            rows = run_process(program, allocator, library, ["--cases", case, *options])
        except BenchError as error:
            if allocator.subject == "hearth":
                raise BenchError(f"hearth: {error}") from error
            progress("")
            print(f"bench: {allocator.name} is left out: {error}", file=sys.stderr)
            failed.add(allocator.name)
            continue
        for name, size, *times in rows:
            samples.setdefault((name, size, allocator.name), []).append(times)
    progress("")
    return [Figure(*key, tuple(t[0] for t in times), min(t[1] for t in times),
                   max(t[2] for t in times))
            for key, times in samples.items() if key[2] not in failed]
