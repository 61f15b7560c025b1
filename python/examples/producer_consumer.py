#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Frames from a producer to several consumers, without a copy and without a pool to give them back to.

    python3 producer_consumer.py [--consumers N] [--frames N]

The producer leases a buffer, fills it and puts an array into a queue. Whoever drops the last reference, on whatever
thread, returns the buffer; the producer's next frame finds its pages warm.
"""

import argparse
import queue
import threading

import numpy as np

import hearth

SHAPE = (720, 1280, 3)


def produce(io, frames, channel, consumers):
    for number in range(frames):
        frame = io.empty(SHAPE, "uint8").numpy()
        frame[:] = number % 251
        channel.put((number, frame))
        del frame  # the consumer's now
    for _ in range(consumers):
        channel.put(None)


def consume(channel, results):
    while (item := channel.get()) is not None:
        number, frame = item
        top = frame[: SHAPE[0] // 2]  # a view keeps the lease as well
        del frame, item
        if not (top == number % 251).all():
            raise AssertionError(f"frame {number} was overwritten while somebody looked at it")
        results.append(int(top[0, 0, 0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--consumers", type=int, default=3)
    parser.add_argument("--frames", type=int, default=500)
    options = parser.parse_args()

    io = hearth.IOArena()
    channel = queue.Queue(maxsize=8)
    results = []
    threads = [threading.Thread(target=consume, args=(channel, results)) for _ in range(options.consumers)]
    for thread in threads:
        thread.start()
    produce(io, options.frames, channel, options.consumers)
    for thread in threads:
        thread.join()

    stats = io.stats()
    size = int(np.prod(SHAPE))
    print(f"{len(results)} frames of {size / 1e6:.1f} MB through {stats.misses} buffers; "
          f"{stats.leased_count} still out, {stats.retained_bytes / 1e6:.1f} MB kept warm")
    if len(results) != options.frames or stats.leased_count != 0:
        raise SystemExit("a frame was lost or is still held")


if __name__ == "__main__":
    main()
