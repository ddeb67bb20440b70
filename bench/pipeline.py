# SPDX-License-Identifier: Apache-2.0
"""pipeline.py SEQ STEPS SPLIT DTYPE: the model of examples/llama-125m.ini in torch.distributed.pipelining, two stages of one thread each on gloo, eight
micro-batches of one sequence, Schedule1F1B. The second stage begins with block SPLIT. DTYPE: f32, or bf16, which is autocast over f32 weights.
Prints the seconds of each step, the update included, the first of which warms up."""
import sys

sys.path = [path for path in sys.path if not path.endswith("bench")]  # beside this file lies a tokenize_peers.py, which is not Python's
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

DIM, BLOCKS, HEADS, KV_HEADS, FFN, IDS, MICRO_BATCHES = 768, 12, 12, 4, 2048, 32000, 8


def linear(rows, columns):
    return nn.Linear(rows, columns, bias=False)


def rotated(x, turn):
    even, odd = x.float().chunk(2, dim=-1)
    cos, sin = turn
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1).to(x.dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = DIM // HEADS
        self.before, self.between = nn.RMSNorm(DIM, eps=1e-5), nn.RMSNorm(DIM, eps=1e-5)
        self.q, self.o = linear(DIM, DIM), linear(DIM, DIM)
        self.k, self.v = linear(DIM, KV_HEADS * self.size), linear(DIM, KV_HEADS * self.size)
        self.gate, self.up, self.down = linear(DIM, FFN), linear(DIM, FFN), linear(FFN, DIM)

    def forward(self, x, turn):
        y = self.before(x)
        q, k, v = (by(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for by in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotated(q, turn), rotated(k, turn), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Stage(nn.Module):
    """Blocks [first, end): the embedding before block 0, the head behind the last."""

    def __init__(self, first, end, seq, dtype):
        super().__init__()
        self.embedding = nn.Embedding(IDS, DIM) if first == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(first, end))
        self.norm, self.head = (nn.RMSNorm(DIM, eps=1e-5), linear(DIM, IDS)) if end == BLOCKS else (None, None)
        angle = torch.arange(seq)[:, None] / 10000 ** (torch.arange(0, DIM // HEADS, 2) * HEADS / DIM)
        self.turn = angle.cos(), angle.sin()
        self.dtype = dtype

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            x = self.embedding(x).to(self.dtype) if self.embedding else x
            for block in self.blocks:
                x = block(x, self.turn)
            return self.head(self.norm(x)) if self.head else x.to(self.dtype)


def loss_of(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


def clip(parameters):
    """One norm over both stages, as weft has."""
    norm = sum(torch.linalg.vector_norm(p.grad) ** 2 for p in parameters)
    dist.all_reduce(norm)
    factor = (1 / (norm.sqrt() + 1e-6)).clamp(max=1)
    for p in parameters:
        p.grad.mul_(factor)


def train(rank, seq, steps, split, dtype):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = Stage(0, split, seq, dtype) if rank == 0 else Stage(split, BLOCKS, seq, dtype)
    schedule = Schedule1F1B(PipelineStage(model, rank, 2, torch.device("cpu")), MICRO_BATCHES, loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for _ in range(steps):
        ids = torch.randint(0, IDS, (MICRO_BATCHES, seq + 1))
        dist.barrier()
        begin = time.monotonic()
        if rank == 0:
            schedule.step(ids[:, :-1])
        else:
            schedule.step(target=ids[:, 1:], return_outputs=False)
        clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        if rank == 0:
            print(f"{time.monotonic() - begin:.4f}", flush=True)
    dist.destroy_process_group()


def main():
    seq, steps, split = (int(word) for word in sys.argv[1:4])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[4]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                train(rank, seq, steps, split, dtype)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


main()
