# SPDX-License-Identifier: Apache-2.0
"""torch_llama.py: trains the model of bench/gpu with PyTorch on one GPU and prints a line of JSON.

f32 weights, computing in bf16 under autocast, fused AdamW, attention by scaled_dot_product_attention,
several micro-batches a step: what weft does with llama3, bf16 and adamw. --compile: the blocks and
the loss by torch.compile. --weights bf16: without f32 weights, as the least that PyTorch needs."""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.head, self.heads, self.kv = a.dim // a.heads, a.heads, a.kv_heads
        linear = lambda rows, columns: nn.Linear(columns, rows, bias=False)
        self.q, self.o = linear(a.dim, a.dim), linear(a.dim, a.dim)
        self.k, self.v = (linear(a.kv_heads * self.head, a.dim) for _ in range(2))
        self.gate, self.up = (linear(a.ffn, a.dim) for _ in range(2))
        self.down = linear(a.dim, a.ffn)
        self.norm1, self.norm2 = (nn.RMSNorm(a.dim, eps=1e-5) for _ in range(2))

    def forward(self, x, cos, sin):
        batch, length, dim = x.shape
        n = self.norm1(x)
        q, k, v = (w(n).view(batch, length, -1, self.head) for w in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                           is_causal=True, enable_gqa=self.heads != self.kv)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, dim))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embedding = nn.Embedding(a.vocab, a.dim)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.dim, eps=1e-5)
        self.lm_head = nn.Linear(a.dim, a.vocab, bias=False)
        half = a.dim // a.heads // 2
        angle = torch.arange(a.seq)[:, None] / 500000 ** (torch.arange(half) / half)
        self.register_buffer("cos", angle.cos()[None, :, None], persistent=False)
        self.register_buffer("sin", angle.sin()[None, :, None], persistent=False)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name, value in dict(dim=4096, layers=4, heads=32, kv_heads=8, ffn=14336, vocab=128256,
                            seq=8192, batch=8, micro=1, steps=8, ids=258).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    p.add_argument("--device", default="cuda")
    p.add_argument("--weights", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    cuda = a.device == "cuda"
    torch.manual_seed(42)
    torch.set_float32_matmul_precision("high")
    with torch.device(a.device):
        model = Llama(a)
    if a.weights == "bf16":
        model.to(torch.bfloat16)
    for w in model.parameters():
        if w.dim() > 1:
            nn.init.normal_(w, std=0.02)
    weights = sum(w.numel() for w in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    step_of = torch.compile(model) if a.compile else model
    wait = torch.cuda.synchronize if cuda else lambda: None
    seconds, losses = [], []
    for _ in range(a.steps):
        ids = torch.randint(0, a.ids, (a.batch, a.seq + 1), device=a.device)
        wait()
        began = time.perf_counter()
        total = 0
        for first in range(0, a.batch, a.micro):
            part = ids[first:first + a.micro]
            with torch.autocast(a.device, torch.bfloat16, enabled=a.weights == "f32"):
                loss = step_of(part[:, :-1], part[:, 1:]) / (a.batch * a.seq)
            loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(total))  # waits
        seconds.append(time.perf_counter() - began)
    print(json.dumps(dict(
        step_s=statistics.median(seconds[min(3, a.steps - 1):]), steps_s=[round(s, 4) for s in seconds],
        weights=weights, loss_first=losses[0], loss_last=losses[-1], torch=torch.__version__,
        peak_bytes=torch.cuda.max_memory_allocated() if cuda else 0)))


sys.exit(main())
