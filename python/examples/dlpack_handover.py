#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hand-over in both directions through DLPack: to NumPy, to PyTorch where it is installed, and back.

    python3 dlpack_handover.py

No byte is copied: every consumer looks at the same address, and the buffer goes home once, when the last of them
is done.
"""

import numpy as np

import hearth


def main():
    io = hearth.IOArena()
    lease = io.zeros((4, 1000), "float32")
    address = lease.address

    array = np.from_dlpack(lease)  # read-only in older versions of NumPy, as their rule for DLPack is
    writable = lease.numpy()
    writable[1] = 2.5
    print("NumPy sees", array[1, 0], "at the same address:", array.ctypes.data == address)

    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: skipped")
    else:
        tensor = torch.from_dlpack(lease)
        tensor[2] = 7
        print("PyTorch wrote", writable[2, 0], "at the same address:", tensor.data_ptr() == address)
        del tensor

    del lease, array, writable
    print("still out:", io.leased_count)

    foreign = np.arange(1_000_000, dtype="int64")
    adopted = io.from_dlpack(foreign)  # somebody else's memory under a lease of ours
    print("adopted", adopted, "without a copy:", adopted.address == foreign.ctypes.data)
    del foreign
    print("and still readable:", int(adopted.numpy()[-1]))
    del adopted
    if io.leased_count != 0:
        raise SystemExit("a lease was lost")


if __name__ == "__main__":
    main()
