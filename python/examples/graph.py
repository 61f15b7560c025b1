#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A small graph with kernels in Python: intermediates stay inside, the output leaves as an array that owns its lease.

    python3 graph.py
"""

import numpy as np

import hearth


def gram(node):
    (x,) = node.inputs
    np.matmul(x, x.T, out=node.output(0, (x.shape[0], x.shape[0]), x.dtype))


def softmax(node):
    (x,) = node.inputs
    scratch = node.temporary(x.shape, x.dtype)
    np.subtract(x, x.max(axis=1, keepdims=True), out=scratch)
    result = node.output(0, x.shape, x.dtype)  # already in the I/O arena: "weights" is declared
    np.exp(scratch, out=result)
    result /= result.sum(axis=1, keepdims=True)


def main():
    plan = hearth.Plan(inputs=["x"], outputs=["weights"])
    plan.add(gram, ["x"], ["scores"], name="gram")
    plan.add(softmax, ["scores"], ["weights"], name="softmax")

    runtime = hearth.Runtime(plan)
    x = np.random.default_rng(1).random((512, 64), dtype=np.float32)
    kept = [runtime.run({"x": x})["weights"] for _ in range(3)]
    for _ in range(20):
        runtime.run({"x": x})
    before = runtime.service.footprint
    for _ in range(100):
        runtime.run({"x": x})
    print("a hundred runs more took", runtime.service.footprint - before, "bytes from the system")
    del runtime
    print("three outputs outlive the runtime:", all(np.allclose(y.sum(axis=1), 1, atol=1e-4) for y in kept))


if __name__ == "__main__":
    main()
