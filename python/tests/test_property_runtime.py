# SPDX-License-Identifier: Apache-2.0
"""Random graphs against NumPy: what comes out is right, what a kernel kept stays as it was, and all comes home.

Each value is an array of one repeated number, so that bytes of any other value are seen at once.
"""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hearth
from support import SMOKE, misuses

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings, strategies as st  # noqa: E402

KINDS = ["add", "pass", "constant", "lease", "view", "slow", "temporary", "again", "nothing", "fail"]
POOL = ThreadPoolExecutor(3)


class Failure(Exception):
    pass


class Graph:
    """A drawn graph: kernels that compute, keep and put, and what they should give."""

    def __init__(self, service, nodes, size):
        self.service, self.nodes, self.size = service, nodes, size
        self.values = {"x0": 1.0, "x1": 2.0}
        self.kept = []  # (value, array): what kernels kept
        self.fails = False

    def kernel(self, number, kind, names, keep):
        value = sum(self.values[name] for name in names) + number + 3
        if kind == "pass":
            value = self.values[names[0]]
        elif kind == "constant":
            value = float(number)
        self.values[f"v{number}"] = value
        self.fails = self.fails or kind == "fail"
        shape = (self.size,)

        def body(node):
            inputs = [np.asarray(one) for one in node.inputs]
            for name, one in zip(names, inputs):
                assert (one == self.values[name]).all() and not one.flags.writeable
            if kind == "pass":
                node.put(0, node.inputs[0])
                out = None
            elif kind == "constant":
                constant = np.full((2, self.size), value)
                node.put(0, constant[1])
                constant[:] = -1
                out = None
            elif kind == "lease":
                lease = self.service.io.empty(shape, "float64")
                lease.numpy()[:] = value
                node.put(0, lease)
                out = None
            elif kind == "view":
                whole = self.service.execution.empty((3, self.size), "float64").numpy()
                whole[:] = -1
                whole[1] = value
                node.put(0, whole[1])
                out = None
            else:
                out = node.output(0, shape, "float64")
                if kind == "again":
                    first = out
                    first[:] = -1
                    out = node.output(0, shape, "float64")
                if kind == "temporary":
                    scratch = node.temporary((7, self.size), "float64")
                    scratch[:] = -1
                    if keep:
                        self.kept.append((-1, scratch))
                if kind == "slow":
                    gc.collect()
                out[:] = value
                if kind == "fail":
                    raise Failure(number)
            if keep:
                self.kept += [(self.values[name], one[::2]) for name, one in zip(names, inputs)]
                if out is not None:
                    self.kept.append((value, out.reshape(-1, 1).T))

        return body

    def build(self, outputs):
        plan = hearth.Plan(inputs=["x0", "x1"], outputs=outputs)
        for number, (kind, sources, keep) in enumerate(self.nodes):
            if kind == "nothing":
                names = [list(self.values)[0]]
                kind = "add"
            else:
                known = list(self.values)
                names = [known[source % len(known)] for source in sources]
            plan.add(self.kernel(number, kind, names, keep), names, [f"v{number}"])
        return plan


NODES = st.lists(st.tuples(st.sampled_from(KINDS[:-1]), st.lists(st.integers(0, 30), min_size=1, max_size=3),
                           st.booleans()), min_size=1, max_size=8)


@settings(max_examples=10 if SMOKE else 80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(nodes=NODES, failing=st.sampled_from([None, None, None, 0, 3]), picks=st.sets(st.integers(0, 9), min_size=1),
       size=st.sampled_from([0, 1, 100, 20_000]), parallel=st.booleans(), leases=st.booleans(),
       store=st.sampled_from(["lists", "spans", "plans"]))
def test_random_graphs(nodes, failing, picks, size, parallel, leases, store):
    before = misuses()
    service = hearth.Service(maintenance_thread=False, store=store)
    if failing is not None:
        index = failing % len(nodes)
        nodes = nodes[:index] + [("fail",) + nodes[index][1:]] + nodes[index + 1:]
    graph = Graph(service, nodes, size)
    names = sorted({f"v{pick % len(nodes)}" for pick in picks} | ({"x0"} if 9 in picks else set()))
    runtime = hearth.Runtime(graph.build(names), service=service)
    feeds = {"x0": np.full(size, 1.0), "x1": np.full((size, 2), 2.0)[:, 0]}
    results = []
    for turn in range(4):
        try:
            results.append(runtime.run(feeds, executor=POOL if parallel else None, leases=leases))
        except Failure:
            assert graph.fails
        if turn == 2:
            service.trim()
    assert graph.fails or len(results) == 4
    for value, out in graph.kept:
        assert (out == value).all()
    feeds["x0"][:] = -1  # inputs are borrowed, outputs are not
    del runtime
    arrays = [(graph.values[name], np.asarray(value)) for result in results for name, value in result.items()]
    results.clear()
    for value, out in arrays:
        assert (out == value).all()
    for index, (_value, out) in enumerate(arrays):
        out[:] = -2 - index
    for index, (_value, out) in enumerate(arrays):
        assert (out == -2 - index).all(), "two outputs share their bytes"
    arrays.clear()
    graph.kept.clear()
    value = out = result = None
    gc.collect()
    service.execution.empty(1)  # what other threads returned is taken in
    assert service.io.live_count == 0 and service.live_bytes == 0
    assert misuses() == before
    service.close()
