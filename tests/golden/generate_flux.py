#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes flux.safetensors: a small FLUX of 2 double and 2 single blocks, in f64, from the published equations (Black Forest Labs, 2024; Esser et al.,
2024). It knows nothing of weft: text and image are concatenated, heads are of three axes of positions, noise and times are given.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.15.0 safetensors==0.8.0 numpy
    /tmp/golden/bin/python tests/golden/generate_flux.py

    metadata ini                            [flux], and [latents] but for its path, which is this file
    latents, t5, clip, noise, time          f32, as the plugin latents reads them
    weight/P                                f32 parameter P
    gradient/P                              f64 of the mean loss
    prediction                              f64 [samples, places, 4 channels]
    loss, errors                            f64: the mean over samples, and each sample's
"""

import math
import os

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
DIM, HEADS, T5, CLIP, TEXT, CHANNELS, HEIGHT, WIDTH, SAMPLES, GUIDANCE = 16, 2, 5, 3, 4, 2, 6, 4, 3, 3.5
AXES = (4, 2, 2)  # of a head's 8
F = nn.functional


def rotation(ids):
    """[places, pairs] of angles: pair i of an axis of width d turns by position * 10000^(-2i/d)."""
    parts = [ids[:, [a]] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d) for a, d in enumerate(AXES)]
    return torch.cat(parts, 1)


def rotate(x, angles):
    """x [batch, heads, places, d]: neighbours are the parts of a complex number."""
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def waves(t):
    """cos and then sin of 1000 t over 128 frequencies."""
    w = torch.exp(-math.log(10000) * torch.arange(128, dtype=torch.float64) / 128)
    a = 1000 * t[:, None] * w
    return torch.cat([a.cos(), a.sin()], 1)


def norm(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class Told(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(width, DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        return self.linear_2(F.silu(self.linear_1(x)))


class Rows(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(DIM, n * DIM)
        self.n = n

    def forward(self, vec):
        return self.linear(F.silu(vec))[:, None].chunk(self.n, -1)


class Feed(nn.Module):
    """Names of diffusers: net.0.proj, net.2."""

    def __init__(self):
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(DIM, 4 * DIM)
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(4 * DIM, DIM)])

    def forward(self, x):
        return self.net[2](F.gelu(self.net[0].proj(x), approximate="tanh"))


def heads(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def attend(q, k, v, angles):
    q, k = rotate(q, angles), rotate(k, angles)
    p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
    return (p @ v).transpose(1, 2).flatten(-2)


class RMS(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM // HEADS))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    def __init__(self, double):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(DIM, DIM) for _ in range(3))
        self.norm_q, self.norm_k = RMS(), RMS()
        if double:
            self.add_q_proj, self.add_k_proj, self.add_v_proj, self.to_add_out = (nn.Linear(DIM, DIM) for _ in range(4))
            self.norm_added_q, self.norm_added_k = RMS(), RMS()
            self.to_out = nn.ModuleList([nn.Linear(DIM, DIM)])

    def image(self, x):
        return self.norm_q(heads(self.to_q(x))), self.norm_k(heads(self.to_k(x))), heads(self.to_v(x))

    def text(self, x):
        return self.norm_added_q(heads(self.add_q_proj(x))), self.norm_added_k(heads(self.add_k_proj(x))), heads(self.add_v_proj(x))


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm1_context = Rows(6), Rows(6)
        self.attn = Attention(True)
        self.ff, self.ff_context = Feed(), Feed()

    def forward(self, text, image, vec, angles):
        a, b = self.norm1_context(vec), self.norm1(vec)
        qt, kt, vt = self.attn.text(norm(text) * (1 + a[1]) + a[0])
        qi, ki, vi = self.attn.image(norm(image) * (1 + b[1]) + b[0])
        o = attend(torch.cat([qt, qi], 2), torch.cat([kt, ki], 2), torch.cat([vt, vi], 2), angles)
        text = text + a[2] * self.attn.to_add_out(o[:, :TEXT])
        image = image + b[2] * self.attn.to_out[0](o[:, TEXT:])
        text = text + a[5] * self.ff_context(norm(text) * (1 + a[4]) + a[3])
        image = image + b[5] * self.ff(norm(image) * (1 + b[4]) + b[3])
        return text, image


class Single(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Rows(3)
        self.attn = Attention(False)
        self.proj_mlp, self.proj_out = nn.Linear(DIM, 4 * DIM), nn.Linear(5 * DIM, DIM)

    def forward(self, x, vec, angles):
        shift, scale, gate = self.norm(vec)
        n = norm(x) * (1 + scale) + shift
        o = attend(*self.attn.image(n), angles)
        return x + gate * self.proj_out(torch.cat([o, F.gelu(self.proj_mlp(n), approximate="tanh")], -1))


class Flux(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder, self.context_embedder = nn.Linear(4 * CHANNELS, DIM), nn.Linear(T5, DIM)
        self.time_text_embed = nn.Module()
        self.time_text_embed.timestep_embedder = Told(256)
        self.time_text_embed.guidance_embedder = Told(256)
        self.time_text_embed.text_embedder = Told(CLIP)
        self.transformer_blocks = nn.ModuleList([Double() for _ in range(2)])
        self.single_transformer_blocks = nn.ModuleList([Single() for _ in range(2)])
        self.norm_out, self.proj_out = Rows(2), nn.Linear(DIM, 4 * CHANNELS)

    def forward(self, x, t, t5, clip):
        e = self.time_text_embed
        vec = e.timestep_embedder(waves(t)) + e.guidance_embedder(waves(torch.full_like(t, GUIDANCE))) + e.text_embedder(clip)
        text, image = self.context_embedder(t5), self.x_embedder(x)
        rows, columns = HEIGHT // 2, WIDTH // 2
        ids = torch.zeros(TEXT + rows * columns, 3)
        ids[TEXT:, 1] = torch.arange(rows).repeat_interleave(columns)
        ids[TEXT:, 2] = torch.arange(columns).repeat(rows)
        angles = rotation(ids)
        for block in self.transformer_blocks:
            text, image = block(text, image, vec, angles)
        both = torch.cat([text, image], 1)
        for block in self.single_transformer_blocks:
            both = block(both, vec, angles)
        scale, shift = self.norm_out(vec)  # in this order, as diffusers has them
        return self.proj_out(norm(both[:, TEXT:]) * (1 + scale) + shift)


def pack(x):
    """[n c (h 2) (w 2)] -> [n (h w) (c 2 2)]"""
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(n, h * w // 4, 4 * c)


def names(key, tensor):
    """proj_out of single blocks is two matrices in weft."""
    if key.startswith("single_") and key.endswith("proj_out.weight"):
        yield key.replace("proj_out", "proj_out.attn"), tensor[:, :DIM]
        yield key.replace("proj_out", "proj_out.mlp"), tensor[:, DIM:]
    else:
        yield key, tensor


def main():
    torch.set_default_dtype(torch.float64)
    g = torch.Generator().manual_seed(41)

    def numbers(*size):
        return torch.randn(*size, generator=g).float().double()

    model = Flux()
    with torch.no_grad():
        for key, p in model.named_parameters():
            one = ".norm_" in key and key.endswith("weight") and p.dim() == 1
            p.copy_((torch.randn(p.shape, generator=g) * (0.3 if one else 0.2) + (1 if one else 0)).float().double())
    latents, noise = numbers(SAMPLES, CHANNELS, HEIGHT, WIDTH), numbers(SAMPLES, CHANNELS, HEIGHT, WIDTH)
    t5, clip = numbers(SAMPLES, TEXT, T5), numbers(SAMPLES, CLIP)
    t = torch.rand(SAMPLES, generator=g).float().double()
    x, n = pack(latents), pack(noise)
    mixed = (1 - t[:, None, None]) * x + t[:, None, None] * n
    v = model(mixed, t, t5, clip)
    errors = (v - (n - x)).pow(2).mean((1, 2))
    errors.mean().backward()
    out = {k: a.numpy().astype(np.float32) for k, a in {"latents": latents, "noise": noise, "t5": t5, "clip": clip, "time": t}.items()}
    out |= {"prediction": v.detach().numpy(), "errors": errors.detach().numpy(), "loss": np.array([errors.mean().item()])}
    for key, p in model.named_parameters():
        for name, x in names(key, p.detach()):
            out["weight/" + name] = np.ascontiguousarray(x.numpy().astype(np.float32))
        for name, x in names(key, p.grad):
            out["gradient/" + name] = np.ascontiguousarray(x.numpy())
    ini = (f"[flux]\ndim = {DIM}\nn_heads = {HEADS}\nn_double = 2\nn_single = 2\nt5_dim = {T5}\nclip_dim = {CLIP}\ntext = {TEXT}\nimage = {HEIGHT * 8}\n"
           f"image_width = {WIDTH * 8}\nchannels = {CHANNELS}\ntimestep = data\nnoise = data\nguidance = yes\nguidance_scale = {GUIDANCE}\n"
           "[latents]\nalso = noise time\nshuffle = no\n")
    path = os.path.join(HERE, "flux.safetensors")
    save_file(out, path, metadata={"ini": ini})
    os.chmod(path, 0o644)
    print(f"flux: {os.path.getsize(path)} bytes, loss {out['loss']}")


if __name__ == "__main__":
    main()
