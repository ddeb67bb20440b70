#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes f8.safetensors: what PyTorch's casts to float8_e4m3fn and float8_e5m2 make of numbers that were clamped to the largest finite one; and
float8.safetensors: one linear, forward and backward, by each recipe, as PyTorch computes it from the definitions in docs/float8.md. With torchao, its
own scaling and rounding are compared on the way.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.5.1 safetensors==0.4.5 numpy torchao==0.10.0
    /tmp/golden/bin/python tests/golden/generate_float8.py

    f32                 u8 [n, 4]   bits of hard cases: halfway points and their neighbours, largest and smallest numbers, NaN, infinities, any
    f32/e4m3, f32/e5m2  u8 [n]      what becomes of them
    bf16/e4m3, ...      u8 [65536]  what becomes of every bf16, by its bits
    values/e4m3, ...    f32 [256]   what every code stands for

    x [t e], w [f e], dy [t f]                       f32
    RECIPE/x, RECIPE/w, RECIPE/dy, ...               in 8 bits; x.rows and the like: with a scale for each of its rows, .columns: of its columns
    RECIPE/x.scale, ...                              f32
    RECIPE/y, RECIPE/dx, RECIPE/dw                   f32
    delayed/N/history, scale, now, next, next_scale  f32; delayed/N/settings: i32 margin, interval, step, most recent
"""

import os

import numpy as np
import safetensors.torch
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


def scale_of(amax, dtype, power_of_two=False, margin=0):
    scale = (torch.finfo(dtype).max / amax.double().clamp(min=1e-12) / 2.0**margin).float()
    return torch.exp2(torch.floor(torch.log2(scale.double()))).float() if power_of_two else scale


def narrow(x, dtype, dim=None, power_of_two=False):
    """dim: the one that is contracted; every place of the others has a scale of its own."""
    amax = x.abs().amax() if dim is None else x.abs().amax(dim)
    scale = scale_of(amax, dtype, power_of_two)
    largest = torch.finfo(dtype).max
    spread = scale if dim is None else scale.unsqueeze(dim)
    return (x * spread).clamp(-largest, largest).to(dtype), scale


def product(a, a_scale, b, b_scale):
    """a [m k], b [n k]"""
    total = a.double() @ b.double().T
    for scale, dim in ((a_scale, 1), (b_scale, 0)):
        total = total / (scale.double() if scale.dim() == 0 else scale.double().unsqueeze(dim))
    return total.float()


def linears(x, w, dy):
    e4m3, e5m2 = DTYPES["e4m3"], DTYPES["e5m2"]
    out = {"x": x, "w": w, "dy": dy}

    def put(recipe, **tensors):
        for name, t in tensors.items():
            out[f"{recipe}/{name.replace('_', '.')}"] = t.contiguous()

    qx, sx = narrow(x, e4m3)
    qw, sw = narrow(w, e4m3)
    qd, sd = narrow(dy, e5m2)
    put("tensorwise", x=qx, x_scale=sx, w=qw, w_scale=sw, dy=qd, dy_scale=sd, y=product(qx, sx, qw, sw), dx=product(qd, sd, qw.float().T, sw),
        dw=product(qd.float().T, sd, qx.float().T, sx))
    rx, srx = narrow(x, e4m3, 1, True)
    rw, srw = narrow(w, e4m3, 1, True)
    rd, srd = narrow(dy, e4m3, 1, True)
    cx, scx = narrow(x, e4m3, 0, True)
    cw, scw = narrow(w, e4m3, 0, True)
    cd, scd = narrow(dy, e4m3, 0, True)
    put("rowwise", x_rows=rx, x_rows_scale=srx, w_rows=rw, w_rows_scale=srw, dy_rows=rd, dy_rows_scale=srd, x_columns=cx, x_columns_scale=scx,
        w_columns=cw, w_columns_scale=scw, dy_columns=cd, dy_columns_scale=scd, y=product(rx, srx, rw, srw), dx=product(rd, srd, cw.float().T, scw),
        dw=product(cd.float().T, scd, cx.float().T, scx))
    tw, stw = narrow(w, e4m3, None, True)
    put("rowwise_gw_hp", w=tw, w_scale=stw, dx=product(rd, srd, tw.float().T, stw), dw=(dy.double().T @ x.double()).float())
    return out


def histories():
    """Transformer Engine's delayed scaling: the history with this step's maximum in front; the scale from its maximum, or from the front."""
    out, random = {}, np.random.default_rng(12)
    for n, (margin, interval, step, recent) in enumerate([(0, 1, 1, 0), (2, 1, 5, 0), (0, 1, 6, 1), (0, 4, 6, 0), (-1, 4, 8, 0), (0, 1, 9, 0), (0, 1, 9, 1)]):
        history = np.abs(random.standard_normal(4)).astype(np.float32) * (n != 5)
        now = np.float32(0 if n >= 5 else 2.0**20 if n == 2 else abs(random.standard_normal()))
        following = np.concatenate([[now], history[:-1]]).astype(np.float32)
        scale = np.float32(3.25)
        amax = following[0] if recent else following.max()
        fresh = scale_of(torch.tensor(amax), DTYPES["e4m3"], margin=margin).numpy() if amax > 0 else np.float32(1)
        for name, value in {"history": history, "scale": scale, "now": now, "next": following, "next_scale": fresh if step % interval == 0 else scale}.items():
            out[f"delayed/{n}/{name}"] = torch.from_numpy(np.asarray(value, np.float32).reshape(-1).copy())
        out[f"delayed/{n}/settings"] = torch.tensor([margin, interval, step, recent], dtype=torch.int32)
    return out


def compare_with_torchao(x, out):
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_scaling_utils import hp_tensor_to_float8_dynamic
    from torchao.float8.float8_tensor import GemmInputRole, LinearMMConfig

    def same(recipe, name, q):
        assert torch.equal(out[f"{recipe}/{name}"].view(torch.uint8), q._data.view(torch.uint8)), (recipe, name)
        assert torch.equal(out[f"{recipe}/{name}.scale"].reshape(-1), q._scale.reshape(-1)), (recipe, name)

    e4m3, config = DTYPES["e4m3"], LinearMMConfig()
    same("tensorwise", "x", hp_tensor_to_float8_dynamic(x, e4m3, config, gemm_input_role=GemmInputRole.INPUT))
    same("rowwise", "x.rows", hp_tensor_to_float8_dynamic(x, e4m3, config, gemm_input_role=GemmInputRole.INPUT, scaling_granularity=ScalingGranularity.AXISWISE,
                                                          axiswise_dim=-1, round_scales_to_power_of_2=True))


def one_linear():
    torch.manual_seed(5)
    x, w, dy = torch.randn(24, 32), torch.randn(48, 32) * 0.1, torch.randn(24, 48) * 1e-4
    x[3] = 0
    x[5, 7] = 2.0**20
    x[6] *= 2.0**-140
    w[:, 4] = 0
    dy[:, 9] *= 2.0**-20
    out = linears(x, w, dy)
    try:
        compare_with_torchao(x, out)
        print("as torchao")
    except ImportError as error:
        print("not compared with torchao:", error)
    return out | histories()


def main():
    f32 = hard_cases()
    bf16 = torch.arange(0, 65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    tensors = {"f32": f32.view(np.uint8).reshape(-1, 4)}
    for name, dtype in DTYPES.items():
        tensors["f32/" + name] = clamp_then_cast(torch.from_numpy(f32.view(np.float32)), dtype)
        tensors["bf16/" + name] = clamp_then_cast(bf16, dtype)
        tensors["values/" + name] = torch.arange(0, 256, dtype=torch.int32).to(torch.uint8).view(dtype).float().numpy()
    save_file(tensors, os.path.join(HERE, "f8.safetensors"), {"torch": torch.__version__})
    safetensors.torch.save_file(one_linear(), os.path.join(HERE, "float8.safetensors"), {"torch": torch.__version__})


if __name__ == "__main__":
    main()
