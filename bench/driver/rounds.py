# SPDX-License-Identifier: Apache-2.0
"""Run one process per allocator, case and round, interleaved, and gather the figures."""
import statistics
import subprocess
import sys
from dataclasses import dataclass

from .errors import BenchError

TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Subject:
    """One allocator as a process to run."""
    name: str
    command: tuple      # the program, and what makes it measure this allocator
    environment: dict
    origin: str         # what the path of the file that provides malloc must contain
    essential: bool     # a failure ends everything, instead of leaving this allocator out


@dataclass(frozen=True)
class Figure:
    """One case at one size with one allocator, over all rounds. Times in ns per operation."""
    case: str
    bytes: int
    threads: int | None   # None where the program does not tell
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


def parse_output(text, subject, notes):
    """Rows of ((case, bytes, threads), (ns, low, high)), after checking whose malloc it was."""
    rows = []
    for line in text.splitlines():
        if line.startswith("# malloc="):
            origin = line.partition("=")[2]
            if subject.origin not in origin:
                raise BenchError(f"malloc comes from {origin}, expected {subject.origin}")
        elif line.startswith("# note="):
            notes.add(f"{subject.name}: {line.partition('=')[2]}")
        else:
            case, size, ns, low, high, *threads = line.split("\t")
            key = (case, int(size), int(threads[0]) if threads else None)
            rows.append((key, (float(ns), float(low), float(high))))
    return rows


def run_process(subject, options, notes):
    try:
        done = subprocess.run([*subject.command, *options], env=subject.environment, text=True,
                              capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"no answer within {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        raise BenchError(f"exit {done.returncode}: {done.stderr.strip()}")
    # The dynamic linker only warns when it cannot preload a library.
    return parse_output(done.stdout, subject, notes)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def schedule(subjects, cases, rounds):
    """
    (round, case, subject) in the order of running. Allocators alternate within a case, seconds
    apart, because a shared machine is fast and slow for seconds at a time; each round starts with
    another allocator, so that none always comes first.
    """
    for number in range(rounds):
        shift = number % len(subjects)
        for case in cases:
            for subject in subjects[shift:] + subjects[:shift]:
                yield number, case, subject


def run_rounds(subjects, cases, rounds, options):
    """
    Figures of all subjects. An allocator that fails is left out from then on, with a note, unless
    it is essential.
    """
    samples = {}
    failed = set()
    notes = set()
    for number, case, subject in schedule(subjects, cases, rounds):
        if subject.name in failed:
            continue
        progress(f"round {number + 1} of {rounds}: {case}, {subject.name}")
        try:
            rows = run_process(subject, ["--cases", case, *options], notes)
        except BenchError as error:
            if subject.essential:
                raise BenchError(f"{subject.name}: {error}") from error
            progress("")
            print(f"bench: {subject.name} is left out: {error}", file=sys.stderr)
            failed.add(subject.name)
            continue
        for key, times in rows:
            samples.setdefault((*key, subject.name), []).append(times)
    progress("")
    for note in sorted(notes):
        print(f"bench: {note}", file=sys.stderr)
    return [Figure(*key, tuple(t[0] for t in times), min(t[1] for t in times),
                   max(t[2] for t in times))
            for key, times in samples.items() if key[-1] not in failed]
