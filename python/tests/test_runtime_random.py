# SPDX-License-Identifier: Apache-2.0
"""Random graphs of kernels in Python and C, each value checked against a plain evaluation, with arrays kept beyond
their runs that must not change."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hearth
from kernels import c_kernel, compile_c

C_NAMES = ["twice", "twice_in_place", "twice_misplaced", "twice_inline"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("kernels"))


class Kept:
    """Arrays with what they held, of all threads."""

    def __init__(self, random):
        self.random, self.entries, self.lock = random, [], threading.Lock()

    def offer(self, array):
        with self.lock:
            if self.random.integers(0, 4) == 0:
                self.entries.append((array, array.copy()))
            if len(self.entries) > 60:
                del self.entries[int(self.random.integers(0, 60))]

    def check(self):
        with self.lock:
            assert all(np.array_equal(array, copy) for array, copy in self.entries)


def python_kernel(way, kept, io):
    """Sums its inputs, and brings the result in one of many ways."""

    def kernel(node):
        inputs = node.inputs
        total = node.temporary(inputs[0].shape, "float32")
        total[...] = inputs[0]
        for more in inputs[1:]:
            total += more
        if way == "output":
            node.output(0, total.shape, total.dtype)[...] = total
        elif way == "again":
            node.output(0, 3, "uint8")[...] = 0
            node.output(0, total.shape, total.dtype)[...] = total
        elif way == "workspace":
            node.put(0, total)
        elif way == "strided":
            node.put(0, np.repeat(total, 2)[::2])
        elif way == "lease":
            lease = io.empty(total.shape, "float32")
            lease.numpy()[...] = total
            node.put(0, lease)
        else:
            node.put(0, inputs[0] if len(inputs) == 1 else total)
        kept.offer(total)
        for array in inputs:
            kept.offer(array)

    return kernel


def make(random, library, kept, io):
    """A plan and the plain evaluation of it: by value, its inputs and whether it is their sum or twice the first."""
    values, rules = ["x0", "x1"], {}
    for i in range(int(random.integers(2, 14))):
        count = int(random.integers(1, 4))
        used = [values[int(random.integers(0, len(values)))] for _ in range(count)]
        rules[f"v{i}"] = (used, "sum" if random.integers(0, 5) < 3 else "twice")
        values.append(f"v{i}")
    declared = [value for value in values if random.integers(0, 3) == 0 or value == values[-1]]
    plan = hearth.Plan(["x0", "x1"], declared)
    for value in random.permutation(list(rules)):
        used, rule = rules[value]
        if rule == "twice":
            name = C_NAMES[int(random.integers(0, 4))]
            aware = name != "twice_misplaced" and bool(random.integers(0, 2))
            plan.add(c_kernel(library, name, slot_aware=aware), used[:1], [value], name=name)
        else:
            ways = ["output", "again", "workspace", "strided", "lease", "pass"]
            way = ways[int(random.integers(0, len(ways)))]
            plan.add(python_kernel(way, kept, io), used, [value], name=way)
    return plan, rules, declared


def evaluate(rules, declared, feeds):
    known = dict(feeds)
    for value, (used, rule) in rules.items():
        known[value] = 2 * known[used[0]] if rule == "twice" else sum(known[name] for name in used)
    return {name: known[name] for name in declared}


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(library, seed):
    random = np.random.default_rng(seed)
    kept = Kept(random)
    store = ("lists", "spans", "plans")[seed % 3]
    service = hearth.Service(store=store, age_runs=0, age_seconds=0, maintenance_thread=False)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(6):
            plan, rules, declared = make(random, library, kept, service.io)
            runtime = hearth.Runtime(plan, service=service)
            results = []
            for _ in range(8):
                size = int(random.integers(1, 20_000))
                feeds = {name: random.integers(0, 3, size).astype(np.float32) for name in ("x0", "x1")}
                if random.integers(0, 3) == 0:
                    feeds["x0"] = np.repeat(feeds["x0"], 3)[::3]
                expected = evaluate(rules, declared, feeds)
                result = runtime.run(feeds, executor=pool if random.integers(0, 2) else None)
                assert list(result) == declared
                for name, array in result.items():
                    assert np.array_equal(array, expected[name]) and array.flags.writeable, name
                    assert not any(np.shares_memory(array, feed) for feed in feeds.values())
                    assert not any(np.shares_memory(array, other) for key, other in result.items() if key != name)
                results = results[-2:] + [(result, expected)]
                for old, known in results:
                    assert all(np.array_equal(old[name], known[name]) for name in declared)
                kept.check()
    kept.entries.clear()
    del result, results, old, array, runtime, plan
    gc.collect()
    assert service.io.live_count == 0
    assert service.io.stats().misuses == 0
