# SPDX-License-Identifier: Apache-2.0
"""torch_llama.py: trains the model of bench/gpu and bench/peer with PyTorch, and prints a line of JSON.

f32 weights, computing in bf16 under autocast (or --compute f32), fused AdamW, attention by
scaled_dot_product_attention, several micro-batches a step: what weft does with llama3, bf16 and
adamw. --experts N: a Qwen3-MoE of Transformers' instead, of that many. --compile: the blocks and the loss by torch.compile, --mode best: with what tunes it.
--weights bf16: without f32 weights, as the least that PyTorch needs. --ranks N --parallel fsdp | tp:
processes on this machine over gloo, fully_shard or tensor and sequence parallel by DTensor."""

import time

BEGAN = time.time()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402


# ---- the model ----

def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.head, self.grouped = a.dim // a.heads, a.heads != a.kv_heads
        self.q, self.o = linear(a.dim, a.dim), linear(a.dim, a.dim)
        self.k, self.v = (linear(a.kv_heads * self.head, a.dim) for _ in range(2))

    def forward(self, n, cos, sin):
        batch, length, _ = n.shape
        q, k, v = (w(n).view(batch, length, -1, self.head) for w in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                           is_causal=True, enable_gqa=self.grouped)
        return self.o(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.gate, self.up = (linear(a.ffn, a.dim) for _ in range(2))
        self.down = linear(a.dim, a.ffn)

    def forward(self, n):
        return self.down(F.silu(self.gate(n)) * self.up(n))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attention, self.ffn = Attention(a), FeedForward(a)
        self.norm1, self.norm2 = (nn.RMSNorm(a.dim, eps=1e-5) for _ in range(2))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.ffn(self.norm2(x))


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


class Experts(nn.Module):
    """Transformers' Qwen3-MoE, every block with experts, --ffn the width of one."""
    def __init__(self, a):
        super().__init__()
        from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
        self.model = Qwen3MoeForCausalLM(Qwen3MoeConfig(
            vocab_size=a.vocab, hidden_size=a.dim, num_hidden_layers=a.layers, num_attention_heads=a.heads,
            num_key_value_heads=a.kv_heads, head_dim=a.dim // a.heads, num_experts=a.experts,
            num_experts_per_tok=a.top_k, moe_intermediate_size=a.ffn, norm_topk_prob=True,
            max_position_embeddings=a.seq, attn_implementation="sdpa", use_cache=False,
            **({"experts_implementation": a.experts_by} if a.experts_by else {})))

    def forward(self, ids, labels):
        logits = self.model(input_ids=ids).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")


# ---- several ranks ----

def shard_by_fsdp(model, mesh, half):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = (MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if half
              else MixedPrecisionPolicy())
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh, mp_policy=policy)


def shard_by_tp(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)
    tokens, whole = Shard(1), Replicate()
    block = {"norm1": SequenceParallel(), "norm2": SequenceParallel(),
             "attention": PrepareModuleInput(input_layouts=(tokens, None, None),
                                             desired_input_layouts=(whole, None, None)),
             "ffn": PrepareModuleInput(input_layouts=(tokens,), desired_input_layouts=(whole,)),
             "attention.o": RowwiseParallel(output_layouts=tokens),
             "ffn.down": RowwiseParallel(output_layouts=tokens)}
    block.update({name: ColwiseParallel()
                  for name in ("attention.q", "attention.k", "attention.v", "ffn.gate", "ffn.up")})
    for part in model.blocks:
        parallelize_module(part, mesh, block)
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=whole, output_layouts=tokens),
        "norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=tokens, output_layouts=Shard(-1), use_local_output=False)})


def join(a, rank):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(a.ranks))
    os.environ.setdefault("MASTER_PORT", "29555")
    dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
    return init_device_mesh("cpu", (a.ranks,))


# ---- a run ----

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def prepare(a, rank):
    """The model, sharded, and what computes a loss."""
    mesh = join(a, rank) if a.ranks > 1 else None
    torch.manual_seed(42)
    with torch.device(a.device):
        model = Experts(a) if a.experts else Llama(a)
    if a.weights == "bf16":
        model.to(torch.bfloat16)
    for w in model.parameters():
        if w.dim() > 1:
            nn.init.normal_(w, std=0.02)
    count = sum(w.numel() for w in model.parameters())
    if a.parallel == "fsdp":
        shard_by_fsdp(model, mesh, a.compute == "bf16")
    elif a.parallel == "tp":
        shard_by_tp(model, mesh)
    if a.mode == "best":
        import torch._inductor.config as inductor
        inductor.max_autotune = inductor.cpp_wrapper = True
    return model, torch.compile(model) if a.compile else model, count


def train(a, rank):
    if a.threads:
        torch.set_num_threads(a.threads)
    cuda, base = a.device == "cuda", resident()
    if cuda:
        torch.set_float32_matmul_precision("high")
    model, step_of, count = prepare(a, rank)
    how = dict(fused=False, foreach=False) if a.parallel == "tp" else dict(fused=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **how)
    wait = torch.cuda.synchronize if cuda else lambda: None
    autocast = a.compute == "bf16" and a.weights == "f32" and a.parallel != "fsdp"
    shared = contextlib.nullcontext
    if a.parallel == "tp":
        from torch.distributed.tensor.parallel import loss_parallel as shared
    batch = a.batch // a.ranks if a.parallel == "fsdp" else a.batch
    draw = torch.Generator(a.device).manual_seed(1 + (rank if a.parallel == "fsdp" else 0))
    seconds, losses, first_s = [], [], 0
    for step in range(a.steps):
        ids = torch.randint(0, a.ids, (batch, a.seq + 1), generator=draw, device=a.device)
        wait()
        began = time.perf_counter()
        total = 0
        for at in range(0, batch, a.micro or batch):
            part = ids[at:at + (a.micro or batch)]
            with shared():
                with torch.autocast(a.device, torch.bfloat16, enabled=autocast):
                    loss = step_of(part[:, :-1], part[:, 1:]) / (batch * a.seq)
                loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(total))  # waits
        seconds.append(time.perf_counter() - began)
        first_s = first_s or time.time() - BEGAN
    if rank == 0:
        print(json.dumps(dict(
            step_s=statistics.median(seconds[min(3, a.steps - 1):]), steps_s=[round(s, 4) for s in seconds],
            first_s=round(first_s, 3), weights=count, loss_first=losses[0], loss_last=losses[-1],
            torch=torch.__version__, base_bytes=base,
            peak_bytes=torch.cuda.max_memory_allocated() if cuda
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name, value in dict(dim=4096, layers=4, heads=32, kv_heads=8, ffn=14336, vocab=128256,
                            seq=8192, batch=8, micro=1, steps=8, ids=258, threads=0, ranks=1, experts=0,
                            top_k=2).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    p.add_argument("--experts-by", default="", help="Transformers' experts_implementation")
    p.add_argument("--device", default="cuda")
    p.add_argument("--weights", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compute", choices=("f32", "bf16"), default="bf16")
    p.add_argument("--parallel", choices=("none", "fsdp", "tp"), default="none")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--mode", choices=("default", "best"), default="default")
    a = p.parse_args()
    if a.ranks == 1:
        return train(a, 0)
    children = []
    for rank in range(a.ranks):  # what is imported is imported once
        child = os.fork()
        if child == 0:
            code = 1
            try:
                train(a, rank)
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


sys.exit(main())
