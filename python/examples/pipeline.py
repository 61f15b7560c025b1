#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A NumPy pipeline before and after: the same function, with NumPy's own allocator and with hearth's.

    python3 pipeline.py [--side PIXELS] [--frames N]

Each frame makes several temporaries that die together, which is when the default allocator gives pages back to the
kernel and asks for them again with the next frame.
"""

import argparse
import resource
import statistics
import time

import numpy as np

import hearth


def sharpen(frame):
    """Unsharp mask with a contrast stretch: six arrays of the frame's size, alive at the same time or nearly so."""
    blurred = np.zeros_like(frame)
    blurred[1:-1, 1:-1] = (frame[:-2, 1:-1] + frame[2:, 1:-1] + frame[1:-1, :-2] + frame[1:-1, 2:]) / 4
    detail = frame - blurred
    strength = np.abs(detail)
    mask = strength > strength.mean()
    sharp = np.where(mask, frame + 1.5 * detail, frame)
    return np.clip((sharp - sharp.min()) / np.ptp(sharp), 0, 1)


def measure(frames, side):
    """Median milliseconds and page faults for a frame, after three to warm up."""
    source = np.random.default_rng(1).random((side, side), dtype=np.float32)
    times, faults = [], []
    checksum = 0.0
    for index in range(frames + 3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = time.perf_counter()
        checksum += float(sharpen(source)[side // 2, side // 2])
        if index >= 3:
            times.append((time.perf_counter() - start) * 1e3)
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return statistics.median(times), statistics.median(faults), checksum


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=2048, help="pixels of a frame's edge")
    parser.add_argument("--frames", type=int, default=30, help="frames that are measured")
    options = parser.parse_args()

    before_ms, before_faults, before_sum = measure(options.frames, options.side)
    with hearth.numpy_allocator() as allocator:
        after_ms, after_faults, after_sum = measure(options.frames, options.side)
        statistics_now = allocator.stats()
    if before_sum != after_sum:
        raise SystemExit(f"the results differ: {before_sum} and {after_sum}")

    print(f"{'':10}{'ms per frame':>14}{'faults per frame':>18}")
    print(f"{'default':10}{before_ms:14.1f}{before_faults:18.0f}")
    print(f"{'hearth':10}{after_ms:14.1f}{after_faults:18.0f}")
    print(f"{before_ms / after_ms:.2f} times as fast; {statistics_now}")


if __name__ == "__main__":
    main()
