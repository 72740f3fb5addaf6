#!/usr/bin/env python3
"""Fashion-MNIST as quick to load as it can be, for tests that start many programs.

    small_data.py FOLDER

Writes FOLDER/fashion-mnist, which DDP_DATA_DIR=FOLDER then names: the first images, unpacked. Without
the data set it writes nothing, and the programs say so.
"""

import gzip
import os
import struct
import sys
from pathlib import Path

TRAINED = 10080  # a batch of 256 leaves 96, as it does with all 60,000
TESTED = 1000


def main(folder):
    source = Path(os.environ.get("DDP_DATA_DIR", "/usr/share/datasets"), "fashion-mnist")
    target = folder / "fashion-mnist"
    target.mkdir(parents=True, exist_ok=True)
    for name, header in (("train-images-idx3-ubyte", 16), ("train-labels-idx1-ubyte", 8),
                         ("t10k-images-idx3-ubyte", 16), ("t10k-labels-idx1-ubyte", 8)):
        if (source / f"{name}.gz").exists():
            data = gzip.decompress((source / f"{name}.gz").read_bytes())
        elif (source / name).exists():
            data = (source / name).read_bytes()
        else:
            print(f"no {source / name}[.gz]")
            return
        (count,) = struct.unpack(">I", data[4:8])
        size = (len(data) - header) // count  # of one sample
        kept = TESTED if name.startswith("t10k") else TRAINED
        data = (data[:4] + struct.pack(">I", kept) + data[8:header]
                + data[header:header + kept * size])
        (target / name).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
