#!/usr/bin/env python3
"""Make the data of the board and of its companion from MNIST, at half the size: samples.py MNIST_DIR OUT_DIR COUNT

OUT_DIR/samples.c  the first COUNT pictures, for the board's flash
OUT_DIR/board      the same pictures as files, for a program that trains in the board's place
OUT_DIR/companion  the next 4 * COUNT pictures, for a device on the host; and all test pictures, at half the size too
"""
# SPDX-License-Identifier: Apache-2.0
import os
import struct
import sys

SIDE = 14


def read_idx(path):
    """The bytes of an IDX file after its head: pictures of 28 * 28 bytes, or labels."""
    with open(path, "rb") as file:
        data = file.read()
    dimensions = data[3]
    return data[4 + 4 * dimensions:]


def half(pictures, k):
    """Picture k at half the size: each pixel is the mean of 2 * 2 pixels."""
    at = pictures[k * 784:(k + 1) * 784]
    return bytes((at[56 * y + 2 * x] + at[56 * y + 2 * x + 1] + at[56 * y + 28 + 2 * x] + at[56 * y + 29 + 2 * x]) // 4
                 for y in range(SIDE) for x in range(SIDE))


def write_idx(folder, part, pictures, labels):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{part}-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, len(pictures), SIDE, SIDE) + b"".join(pictures))
    with open(os.path.join(folder, f"{part}-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x801, len(labels)) + labels)


def write_source(path, pictures, labels):
    rows = [",".join(str(pixel) for pixel in picture) for picture in pictures]
    with open(path, "w", encoding="utf-8") as file:
        file.write('/* Made by samples.py from MNIST. */\n#include "fedclient/examples/baremetal/board.h"\n'
                   f"const uint32_t board_sample_count = {len(pictures)};\n"
                   "const uint8_t board_sample_pixels[] = {\n" + ",\n".join(rows) + "};\n"
                   "const uint8_t board_sample_labels[] = {" + ",".join(map(str, labels)) + "};\n")


def main(source, out, count):
    pictures, labels = (read_idx(os.path.join(source, f"train-{name}-ubyte")) for name in ("images-idx3", "labels-idx1"))
    test, test_labels = (read_idx(os.path.join(source, f"t10k-{name}-ubyte")) for name in ("images-idx3", "labels-idx1"))
    tests = [half(test, k) for k in range(len(test_labels))]
    own = [half(pictures, k) for k in range(count)]
    write_idx(f"{out}/board", "train", own, labels[:count])
    write_idx(f"{out}/board", "t10k", tests, test_labels)
    write_idx(f"{out}/companion", "train", [half(pictures, k) for k in range(count, 5 * count)], labels[count:5 * count])
    write_idx(f"{out}/companion", "t10k", tests, test_labels)
    write_source(f"{out}/samples.c", own, labels[:count])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
