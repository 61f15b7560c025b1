# SPDX-License-Identifier: Apache-2.0
"""What NumPy's arrays cost with NumPy's own allocator and with hearth's.

Each case runs in a process of its own, since the C heap remembers what was freed before. In it both allocators take
turns, round by round, so that a noisy moment meets both. Printed are medians over the rounds, minor page faults per
iteration, and the ratio of the times; a floor, where there is one, is the same work without allocation.

    python3 numpy_memory.py                  # with huge pages as the system has them
    python3 numpy_memory.py --no-huge-pages  # NUMPY_MADVISE_HUGEPAGE=0, which both sides heed
    python3 numpy_memory.py --cases add_64 zeros_used_64 --json result.json
    python3 numpy_memory.py --check          # exit 1 when the faults are not what is promised
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

import hearth

MIB = 1 << 20


class Case:
    """`iteration` is what is measured; `floor`, if given, does the same work in memory that is there.

    fewest: page faults per iteration that the default must have for the case to say anything; most: those that
    hearth may have; ratio: what it should be faster by. Of these only faults are checked.

    With huge pages the default has about 544 faults for 64 MiB, or 33 where the kernel happens to place the block at
    a multiple of 2 MiB.
    """

    def __init__(self, text, iteration, *, zeros="lazy", floor=None, fewest=0, most=2, ratio=None, threads=1):
        self.text = text
        self.iteration = iteration
        self.zeros = zeros
        self.floor = floor
        self.fewest = fewest
        self.most = most
        self.ratio = ratio
        self.threads = threads


def ones(mib):
    return np.ones(mib * MIB // 8)


def add(mib, **keywords):
    def prepare():
        b, c = ones(mib), ones(mib)

        def iteration():
            a = b + c
            return a.size

        out = ones(mib)
        return iteration, lambda: np.add(b, c, out=out)

    return Case(f"a = b + c, {mib} MiB", prepare, fewest=33, ratio=1.3, **keywords)


def temporaries(count, mib):
    def prepare():
        def iteration():
            return len([ones(mib) for _ in range(count)])

        blocks = [ones(mib) for _ in range(count)]

        def floor():
            for block in blocks:
                block.fill(1)

        return iteration, floor

    return Case(f"{count} live x {mib} MiB", prepare, fewest=500)


def mixed():
    sizes = [(i * 37 % 24 + 1) * MIB // 2 for i in range(24)]

    def prepare():
        def iteration():
            live = []
            for size in sizes:
                live.append(np.empty(size, np.uint8))
                live[-1].fill(1)
                if len(live) > 8:
                    live.pop(0)

        blocks = [np.ones(size, np.uint8) for size in sizes]

        def floor():
            for block in blocks:
                block.fill(1)

        return iteration, floor

    return Case("24 mixed 0.5-12 MiB, 8 live", prepare, fewest=500)


def fill(mib):
    def prepare():
        def iteration():
            a = np.empty(mib * MIB // 8)
            a.fill(1)

        out = ones(mib)
        return iteration, lambda: out.fill(1)

    return Case(f"np.empty + fill, {mib} MiB", prepare, fewest=33)


def zeros_used(mib, zeros, most, ratio):
    def prepare():
        def iteration():
            a = np.zeros(mib * MIB // 8)
            a += 1

        out = ones(mib)

        def floor():
            out.fill(0)
            np.add(out, 1, out=out)

        return iteration, floor

    return Case(f"np.zeros, += 1, {mib} MiB, {zeros}", prepare, zeros=zeros, fewest=33, most=most, ratio=ratio)


def zeros_untouched(mib, zeros, ratio):
    def prepare():
        return lambda: np.zeros(mib * MIB // 8).size, None

    return Case(f"np.zeros, not touched, {mib} MiB, {zeros}", prepare, zeros=zeros, ratio=ratio)


def free(mib):
    def prepare():
        b = ones(mib)

        def iteration():
            a = b + 1
            began = time.perf_counter()
            del a  # with the GIL held
            return time.perf_counter() - began

        iteration.is_timed = True
        return iteration, None

    return Case(f"del of {mib} MiB, GIL held", prepare, fewest=0)


def small(size):
    def prepare():
        b = np.ones(size // 8)

        def iteration():
            for _ in range(1000):
                b + b

        return iteration, None

    return Case(f"1000 x (b + b), {size} bytes", prepare)


CASES = {
    "add_64": add(64),
    "add_256": add(256),
    "live_6x1": temporaries(6, 1),
    "live_6x4": temporaries(6, 4),
    "live_6x16": temporaries(6, 16),
    "mixed_24": mixed(),
    "fill_64": fill(64),
    "zeros_used_64": zeros_used(64, "lazy", 40, 3),
    "zeros_used_64_warm": zeros_used(64, "warm", 2, 5),
    "zeros_untouched_64": zeros_untouched(64, "lazy", 0.5),
    "zeros_untouched_64_warm": zeros_untouched(64, "warm", None),
    "threads_2x64": None,
    "free_64": free(64),
    "free_256": free(256),
    "loop_16": temporaries(1, 16),
    "small_800": small(800),
}
CASES["threads_2x64"] = add(64, threads=2)
CASES["threads_2x64"].text = "2 threads, a = b + c, 64 MiB each"
CASES["loop_16"].text, CASES["loop_16"].fewest = "1 live x 16 MiB", 0


# One case, in its own process


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def loop(iteration, count):
    """Seconds of `count` iterations."""
    if getattr(iteration, "is_timed", False):
        return statistics.median(iteration() for _ in range(count)) * count
    began = time.perf_counter()
    for _ in range(count):
        iteration()
    return time.perf_counter() - began


def in_threads(iteration, count, allocator, threads):
    workers = [hearth.NumpyThread(target=loop, args=(iteration, count), allocator=allocator) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - began


class Side:
    def __init__(self, iteration, allocator, threads):
        self.iteration = iteration
        self.allocator = allocator
        self.threads = threads
        self.seconds = []
        self.faults = []

    def round(self, count, warm_up=False):
        state = hearth.install_numpy(self.allocator) if self.allocator else None
        before = faults()
        if self.threads > 1:
            seconds = in_threads(self.iteration, count, self.allocator, self.threads)
        else:
            seconds = loop(self.iteration, count)
        if not warm_up:
            self.faults.append((faults() - before) / count)
            self.seconds.append(seconds / count)
        if self.allocator:
            hearth.uninstall_numpy(state)
        return seconds

    def result(self):
        return {"ms": statistics.median(self.seconds) * 1e3, "best_ms": min(self.seconds) * 1e3,
                "faults": statistics.median(self.faults)}


def run_case(name, rounds, round_seconds):
    case = CASES[name]
    iteration, floor = case.iteration()
    allocator = hearth.numpy_allocator(zeros=case.zeros)
    sides = {"default": Side(iteration, None, case.threads), "hearth": Side(iteration, allocator, case.threads)}
    if floor is not None and case.threads == 1:
        sides["floor"] = Side(floor, None, 1)
    counts = {}
    for key, side in sides.items():
        side.round(3, warm_up=True)
        one = side.round(1, warm_up=True)
        counts[key] = max(1, min(200, int(round_seconds / max(one, 1e-6))))
    gc.disable()
    for _ in range(rounds):
        for key, side in sides.items():
            side.round(counts[key])
    result = {key: side.result() for key, side in sides.items()}
    result["ratio"] = result["default"]["ms"] / result["hearth"]["ms"]
    result["footprint"] = hearth.default_service().footprint
    result["stats"] = allocator.stats()._asdict()
    print(json.dumps(result))


# All of them


def machine():
    def read(path):
        try:
            with open(path) as file:
                return file.read().strip()
        except OSError:
            return None

    return {"python": platform.python_version(), "numpy": np.__version__, "hearth": hearth.__version__,
            "backing": hearth.default_service().backing, "kernel": platform.release(), "cpus": os.cpu_count(),
            "transparent_hugepage": read("/sys/kernel/mm/transparent_hugepage/enabled"),
            "NUMPY_MADVISE_HUGEPAGE": os.environ.get("NUMPY_MADVISE_HUGEPAGE")}


def problems(case, result):
    found = []
    if result["default"]["faults"] < case.fewest:
        found.append(f"default has {result['default']['faults']:.0f} faults, expected {case.fewest} or more")
    if result["hearth"]["faults"] > case.most:
        found.append(f"{result['hearth']['faults']:.0f} faults, {case.most} are allowed")
    return found


def time_text(ms):
    return f"{ms * 1e3:9.1f} us" if ms < 1 else f"{ms:9.2f} ms"


def line(case, result):
    floor = time_text(result["floor"]["ms"]) if "floor" in result else " " * 12
    target = "" if case.ratio is None else f"  (at least {case.ratio})"
    return (f"{case.text:38} {time_text(result['default']['ms'])} {result['default']['faults']:8.1f}"
            f" {time_text(result['hearth']['ms'])} {result['hearth']['faults']:8.1f} {floor} "
            f"{result['ratio']:8.2f}{target}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-seconds", type=float, default=0.05, help="about how long a round takes")
    parser.add_argument("--no-huge-pages", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_case(options.one, options.rounds, options.round_seconds)
        return 0
    if options.no_huge_pages:
        os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items() if value is not None))
    print(f"{'case':38} {'default':>12} {'faults':>8} {'hearth':>12} {'faults':>8} {'floor':>12} {'ratio':>8}")
    results, bad = {}, False
    for name in options.cases:
        done = subprocess.run([sys.executable, __file__, "--one", name, "--rounds", str(options.rounds),
                               "--round-seconds", str(options.round_seconds)], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"{name} ended with {done.returncode}")
            bad = True
            continue
        results[name] = json.loads(done.stdout)
        print(line(CASES[name], results[name]), flush=True)
        if options.check:
            for problem in problems(CASES[name], results[name]):
                print(f"    {problem}")
                bad = True
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": about, "cases": results}, file, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
