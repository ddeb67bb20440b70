#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes flux_images.safetensors: pictures that the small FLUX of flux.safetensors makes of its own noise and texts, in f64, from the published equations
(Black Forest Labs, 2024). Numpy alone: of the model itself it knows nothing that generate_flux.py knows, so that the one is a check of the other, for its
prediction is first compared with that of PyTorch's.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install safetensors==0.8.0 numpy
    /tmp/golden/bin/python tests/golden/generate_flux_images.py

    plain        f64 [samples, channels, height, width]: 4 steps, guidance 2.5, the shift of the places
    unshifted    the same without a shift, 3 steps
    cfg          the same as plain, and 1.75 times the way from the first text to the prompt
"""

import os

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, CHANNELS, HEIGHT, WIDTH, GUIDANCE = 2, 2, 6, 4, 3.5
ROWS, COLUMNS = HEIGHT // 2, WIDTH // 2

file = safe_open(os.path.join(HERE, "flux.safetensors"), "np")
W = {k.removeprefix("weight/"): file.get_tensor(k).astype(np.float64) for k in file.keys() if k.startswith("weight/")}
given = {k: file.get_tensor(k).astype(np.float64) for k in ("latents", "noise", "t5", "clip", "time", "prediction")}


def linear(x, name):
    return x @ W[name + ".weight"].T + W[name + ".bias"]


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def told(numbers, name):
    a = 1000 * numbers[:, None] * 10000.0 ** (-np.arange(128) / 128)
    return embedded(np.concatenate([np.cos(a), np.sin(a)], 1), name)


def embedded(x, name):
    name = "time_text_embed." + name
    return linear(silu(linear(x, name + ".linear_1")), name + ".linear_2")


def heads(x, scale=None):
    """[b s h] -> [b n s d], each divided by the root of its mean square."""
    b, s, h = x.shape
    x = x.reshape(b, s, HEADS, h // HEADS).transpose(0, 2, 1, 3)
    return x if scale is None else x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * W[scale + ".weight"]


def turned(x, text):
    """Neighbours a, b become the real and the imaginary part of (a + ib) e^(i angle)."""
    at = [(0, 0, 0)] * text + [(0, i, k) for i in range(ROWS) for k in range(COLUMNS)]
    frequencies = [(axis, 10000.0 ** (-2 * p / width)) for axis, width in enumerate((4, 2, 2)) for p in range(width // 2)]
    angle = np.array([[place[axis] * f for axis, f in frequencies] for place in at])
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    out = np.empty_like(x)
    out[..., ::2], out[..., 1::2] = z.real, z.imag
    return out


def attend(q, k, v, text):
    q, k = turned(q, text), turned(k, text)
    a = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    a = np.exp(a - a.max(-1, keepdims=True))
    o = (a / a.sum(-1, keepdims=True)) @ v
    return o.transpose(0, 2, 1, 3).reshape(o.shape[0], o.shape[2], -1)


def slots(vec, name, n):
    return np.split(linear(silu(vec), name)[:, None], n, -1)


def predict(x, t, t5, clip, guidance):
    n = t5.shape[1]
    vec = told(t, "timestep_embedder") + told(np.full_like(t, guidance), "guidance_embedder") + embedded(clip, "text_embedder")
    text, image = linear(t5, "context_embedder"), linear(x, "x_embedder")
    for i in range(2):
        b = f"transformer_blocks.{i}."
        mt, mi = slots(vec, b + "norm1_context.linear", 6), slots(vec, b + "norm1.linear", 6)
        nt, ni = norm(text) * (1 + mt[1]) + mt[0], norm(image) * (1 + mi[1]) + mi[0]
        both = [np.concatenate([heads(linear(nt, b + f"attn.add_{c}_proj"), c != "v" and b + f"attn.norm_added_{c}" or None),
                                heads(linear(ni, b + f"attn.to_{c}"), c != "v" and b + f"attn.norm_{c}" or None)], 2) for c in "qkv"]
        o = attend(*both, n)
        text = text + mt[2] * linear(o[:, :n], b + "attn.to_add_out")
        image = image + mi[2] * linear(o[:, n:], b + "attn.to_out.0")
        text = text + mt[5] * linear(gelu(linear(norm(text) * (1 + mt[4]) + mt[3], b + "ff_context.net.0.proj")), b + "ff_context.net.2")
        image = image + mi[5] * linear(gelu(linear(norm(image) * (1 + mi[4]) + mi[3], b + "ff.net.0.proj")), b + "ff.net.2")
    x = np.concatenate([text, image], 1)
    for i in range(2):
        b = f"single_transformer_blocks.{i}."
        shift, scale, gate = slots(vec, b + "norm.linear", 3)
        h = norm(x) * (1 + scale) + shift
        o = attend(*(heads(linear(h, b + f"attn.to_{c}"), c != "v" and b + f"attn.norm_{c}" or None) for c in "qkv"), n)
        x = x + gate * (o @ W[b + "proj_out.attn.weight"].T + gelu(linear(h, b + "proj_mlp")) @ W[b + "proj_out.mlp.weight"].T + W[b + "proj_out.bias"])
    scale, shift = slots(vec, "norm_out.linear", 2)
    return linear(norm(x[:, n:]) * (1 + scale) + shift, "proj_out")


def pack(x):
    """[n c (h 2) (w 2)] -> [n (h w) (c 2 2)]"""
    n = len(x)
    return x.reshape(n, CHANNELS, ROWS, 2, COLUMNS, 2).transpose(0, 2, 4, 1, 3, 5).reshape(n, ROWS * COLUMNS, 4 * CHANNELS)


def unpack(x):
    n = len(x)
    return x.reshape(n, ROWS, COLUMNS, CHANNELS, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(n, CHANNELS, HEIGHT, WIDTH)


def pictures(steps, guidance, shifted, cfg=1.0):
    x, n = pack(given["noise"]), len(given["noise"])
    mu = 0.5 + (1.15 - 0.5) * (ROWS * COLUMNS - 256) / (4096 - 256)  # of FLUX.1-dev's scheduler
    t = np.linspace(1, 1 / steps, steps)
    t = np.append(np.exp(mu) / (np.exp(mu) + (1 / t - 1)) if shifted else t, 0)
    empty = [np.repeat(given[k][:1], n, 0) for k in ("t5", "clip")]
    for now, then in zip(t[:-1], t[1:]):
        v = predict(x, np.full(n, now), given["t5"], given["clip"], guidance)
        if cfg != 1:
            without = predict(x, np.full(n, now), *empty, guidance)
            v = without + cfg * (v - without)
        x = x + (then - now) * v
    return np.ascontiguousarray(unpack(x))


def main():
    t = given["time"][:, None, None]
    v = predict((1 - t) * pack(given["latents"]) + t * pack(given["noise"]), given["time"], given["t5"], given["clip"], GUIDANCE)
    off = np.abs(v - given["prediction"]).max()
    assert off < 1e-12, off
    path = os.path.join(HERE, "flux_images.safetensors")
    save_file({"plain": pictures(4, 2.5, True), "unshifted": pictures(3, 2.5, False), "cfg": pictures(4, 2.5, True, 1.75)}, path)
    os.chmod(path, 0o644)
    print(f"flux_images: {os.path.getsize(path)} bytes; PyTorch's prediction is off by {off:.1e}")


if __name__ == "__main__":
    main()
