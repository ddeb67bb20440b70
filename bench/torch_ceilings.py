# SPDX-License-Identifier: Apache-2.0
"""torch_ceilings.py WHAT DEVICE [SHAPES THREADS]: how fast this machine is at things that a training step needs,
by PyTorch; WHAT is one or several with commas between, a line of JSON each. best-f32 and best-bf16 take SHAPES, "4096x768x2048,...", and THREADS:
the highest rate of 5 of any of these products. Random numbers, several operands in turn, so that caches do not hold
them; the median of 20 after 3 that warm up."""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F


def measure(call, device, times):
    seconds = []
    for i in range(times + 3):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call(i)
            end.record()
            torch.cuda.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            call(i)
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[3:])


def product(dtype, m, n, k, device):
    a = [torch.randn(m, k, device=device).to(dtype) for _ in range(2)]
    b = [torch.randn(n, k, device=device).to(dtype) for _ in range(2)]
    if dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=device)
        return 2 * m * n * k, lambda i: torch._scaled_mm(a[i % 2], b[i % 2].t(), one, one,
                                                         out_dtype=torch.bfloat16)
    return 2 * m * n * k, lambda i: torch.mm(a[i % 2], b[i % 2].t())


def attention(backward, length, device):
    q = torch.randn(1, 32, length, 128, device=device, dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(1, 8, length, 128, device=device, dtype=torch.bfloat16, requires_grad=True)
            for _ in range(2))
    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    flops = 4 * 32 * length * length * 128 // 2  # what a causal mask leaves
    if not backward:
        return flops, lambda i: run().detach()
    dy = torch.randn_like(q)
    return flops * 7 // 2, lambda i: torch.autograd.grad(run(), (q, k, v), dy)


def copy(elements, device):
    a = [torch.randn(elements, device=device) for _ in range(4)]
    return 8 * elements, lambda i: a[i % 2].copy_(a[2 + i % 2])


def best(dtype, shapes, threads, device):
    """Of all products of these shapes, M x N x K, the one that a library is fastest at."""
    torch.set_num_threads(threads)
    found = (0, "")
    for shape in shapes.split(","):
        flops, call = product(dtype, *(int(x) for x in shape.split("x")), device)
        call(0)
        for i in range(5):
            began = time.perf_counter()
            call(i)
            found = max(found, (flops / (time.perf_counter() - began), shape))
    return found


def ceiling(what, device):
    small = device != "cuda"
    n = 256 if small else 8192
    torch.backends.cuda.matmul.allow_tf32 = what == "gemm-tf32"
    dtypes = {"gemm-bf16": torch.bfloat16, "gemm-f32": torch.float32, "gemm-tf32": torch.float32}
    if what == "gemm-f8":
        dtypes[what] = torch.float8_e4m3fn
    if what in dtypes:
        work, call = product(dtypes[what], n, n, n, device)
    elif what == "gemm-ffn":
        work, call = product(torch.bfloat16, n, *((64, 64) if small else (14336, 4096)), device)
    elif what == "gemm-head":
        work, call = product(torch.bfloat16, n // 4, *((64, 64) if small else (128256, 4096)), device)
    elif what in ("attention", "attention-dx"):
        work, call = attention(what.endswith("dx"), n, device)
    elif what == "copy":
        work, call = copy(1 << (20 if small else 29), device)
    seconds = measure(call, device, 3 if small else 20)
    return dict(median_s=seconds, rate=work / seconds, unit="bytes/s" if what == "copy" else "flop/s")


def main():
    what, device = sys.argv[1:3]
    if what.startswith("best-"):
        dtype = torch.bfloat16 if what == "best-bf16" else torch.float32
        rate, shape = best(dtype, sys.argv[3], int(sys.argv[4]), device)
        print(json.dumps(dict(rate=rate, shape=shape, unit="flop/s", torch=torch.__version__)))
        return
    for one in what.split(","):
        try:
            found = ceiling(one, device)
        except (RuntimeError, AttributeError) as why:  # one that this PyTorch or device has not
            found = dict(why=str(why)[:300])
        print(json.dumps(dict(what=one, **found, torch=torch.__version__)), flush=True)


main()
