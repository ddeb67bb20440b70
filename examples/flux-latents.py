#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes latents and embeddings that need no other model, to try flux with: pictures of a bright patch somewhere, and a text that says where.

    flux-latents.py [--samples N ...] FILE [EMPTY]

FILE is for [latents] path, EMPTY for its `empty`."""

import argparse
import array
import json
import math
import random
import struct


def write(path, tensors):
    head, data, at = {}, [], 0
    for name, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def picture(draw, a, size):
    """Channel by channel: a patch of a channel's own sign over a little noise; and where it lies, 0 to 1."""
    x, y = draw.random(), draw.random()
    values = []
    for c in range(a.channels):
        for i in range(size):
            for k in range(size):
                near = math.exp(-8 * ((i / size - y) ** 2 + (k / size - x) ** 2))
                values.append((2 if c % 2 else -2) * near + 0.1 * draw.gauss(0, 1))
    return values, x, y


def text(a, x, y):
    return [math.sin((1 + d) * x * 3 + t) + math.cos((1 + d) * y * 3) for t in range(a.text) for d in range(a.t5)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for key, standard in (("samples", 256), ("channels", 16), ("image", 128), ("text", 32), ("t5", 64), ("clip", 32), ("seed", 1)):
        p.add_argument("--" + key, type=int, default=standard)
    p.add_argument("file")
    p.add_argument("empty", nargs="?")
    a = p.parse_args()
    draw, size = random.Random(a.seed), a.image // 8
    latents, t5, clip = [], [], []
    for _ in range(a.samples):
        values, x, y = picture(draw, a, size)
        latents += values
        t5 += text(a, x, y)
        clip += [math.sin((1 + d) * (x + 2 * y)) for d in range(a.clip)]
    write(a.file, {"latents": ([a.samples, a.channels, size, size], latents), "t5": ([a.samples, a.text, a.t5], t5), "clip": ([a.samples, a.clip], clip)})
    if a.empty:
        write(a.empty, {"t5": ([1, a.text, a.t5], [1.0] * (a.text * a.t5)), "clip": ([1, a.clip], [1.0] * a.clip)})


main()
