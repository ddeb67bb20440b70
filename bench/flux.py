#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small FLUX by weft and by eager PyTorch, in turn, several rounds, in f32 with AdamW and clipping, and prints samples a second: the median of
each with its spread, and their ratio. From the top folder, after ./bootstrap; nothing else should run.

    bench/flux.py --python VENV/bin/python [--rounds 3] [--steps 30] [--batch 16] [--threads 2]

The model is tests/golden/generate_flux.py's, with attention by scaled_dot_product_attention, at the sizes of the flavor debug."""

import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SIZES = {"DIM": 128, "HEADS": 4, "T5": 64, "CLIP": 32, "TEXT": 32, "CHANNELS": 16, "HEIGHT": 16, "WIDTH": 16, "AXES": (4, 14, 14)}


def by_torch(a):
    import torch

    spec = importlib.util.spec_from_file_location("generate_flux", os.path.join(top, "tests/golden/generate_flux.py"))
    flux = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(flux)
    for key, value in SIZES.items():
        setattr(flux, key, value)
    angles = flux.rotation

    def attend(q, k, v, turn):
        q, k = flux.rotate(q, turn), flux.rotate(k, turn)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)

    flux.attend = attend
    flux.rotation = lambda ids: angles(ids.double()).float()
    flux.waves = lambda t, waves=flux.waves: waves(t.double()).float()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = flux.Flux()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    latents, t5, clip = torch.randn(a.batch, 16, 16, 16), torch.randn(a.batch, 32, 64), torch.randn(a.batch, 32)
    times = []
    for _ in range(a.steps):
        began = time.perf_counter()
        x = flux.pack(latents)
        n, t = torch.randn_like(x), torch.rand(a.batch)
        v = model((1 - t[:, None, None]) * x + t[:, None, None] * n, t, t5, clip)
        (v - (n - x)).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - began)
    print(a.batch / statistics.median(times[len(times) // 3:]))


def by_weft(a, folder):
    ini = os.path.join(folder, "run.ini")
    with open(ini, "w") as out:
        out.write(f"[weft]\nplugins = diffusion flux latents cpu adamw metrics\nthreads = {a.threads}\ndir = {folder}/run-{time.time_ns()}\n"
                  f"[train]\nsteps = {a.steps}\nglobal_batch = {a.batch}\n[flux]\nguidance = yes\n[latents]\npath = {folder}/a.safetensors\n[metrics]\nevery = 1\n")
    subprocess.run([a.weft, "train", ini], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = re.search(r"^dir = (.*)", open(ini).read(), re.M).group(1)
    rates = [json.loads(line).get("samples_per_s") for line in open(os.path.join(path, "metrics.jsonl"))]
    rates = [r for r in rates if r]
    return statistics.median(rates[len(rates) // 3:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="one that has torch and safetensors")
    p.add_argument("--weft", default=os.path.join(top, "build/weft"))
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    for key, standard in (("rounds", 3), ("steps", 30), ("batch", 16), ("threads", 2)):
        p.add_argument("--" + key, type=int, default=standard)
    a = p.parse_args()
    if a.torch:
        by_torch(a)
        return
    found = {"weft": [], "eager": []}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(top, "examples/flux-latents.py"), os.path.join(folder, "a.safetensors")], check=True)
        for _ in range(a.rounds):
            found["weft"].append(by_weft(a, folder))
            out = subprocess.run([a.python, os.path.realpath(__file__), "--torch", "--steps", str(a.steps), "--batch", str(a.batch), "--threads", str(a.threads)],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
            found["eager"].append(float(out))
    for name, rates in found.items():
        print(f"{name}: {statistics.median(rates):.1f} samples/s ({min(rates):.1f} to {max(rates):.1f})")
    print(f"weft / eager: {statistics.median(found['weft']) / statistics.median(found['eager']):.2f}")


main()
