#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes f8.safetensors: what PyTorch's casts to float8_e4m3fn and float8_e5m2 make of numbers that were clamped to the largest finite one.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.5.1 safetensors==0.4.5 numpy
    /tmp/golden/bin/python tests/golden/generate_float8.py

    f32                 u8 [n, 4]   bits of hard cases: halfway points and their neighbours, largest and smallest numbers, NaN, infinities, any
    f32/e4m3, f32/e5m2  u8 [n]      what becomes of them
    bf16/e4m3, ...      u8 [65536]  what becomes of every bf16, by its bits
    values/e4m3, ...    f32 [256]   what every code stands for
"""

import os

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def clamp_then_cast(x, dtype):
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype).view(torch.uint8).numpy()


def hard_cases():
    bits = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF]
    for dtype in DTYPES.values():
        codes = torch.arange(0, 0x80, dtype=torch.uint8).view(dtype).float().numpy()
        finite = codes[np.isfinite(codes)].astype(np.float64)
        step = finite[-1] - finite[-2]
        finite = np.append(finite, [finite[-1] + step, finite[-1] + 2 * step])
        halves = (finite[1:] + finite[:-1]) / 2
        for x in np.append(finite, halves).astype(np.float32).view(np.uint32):
            bits += [max(int(x) - 1, 0), int(x), int(x) + 1]
    bits = np.array(bits, np.uint32)
    any_bits = np.random.default_rng(8).integers(0, 1 << 32, 2000, np.uint64).astype(np.uint32)
    sizes = np.random.default_rng(9).standard_normal(2000).astype(np.float32) * 2.0 ** np.random.default_rng(10).integers(-18, 18, 2000)
    return np.concatenate([bits, bits | 0x80000000, any_bits, sizes.astype(np.float32).view(np.uint32)]).astype(np.uint32)


def main():
    f32 = hard_cases()
    bf16 = torch.arange(0, 65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    tensors = {"f32": f32.view(np.uint8).reshape(-1, 4)}
    for name, dtype in DTYPES.items():
        tensors["f32/" + name] = clamp_then_cast(torch.from_numpy(f32.view(np.float32)), dtype)
        tensors["bf16/" + name] = clamp_then_cast(bf16, dtype)
        tensors["values/" + name] = torch.arange(0, 256, dtype=torch.int32).to(torch.uint8).view(dtype).float().numpy()
    save_file(tensors, os.path.join(HERE, "f8.safetensors"), {"torch": torch.__version__})


if __name__ == "__main__":
    main()
