#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of this folder: small random models as Hugging Face Transformers and PyTorch compute them.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy
    /tmp/golden/bin/python tests/golden/generate.py

Everything is computed in f64, also where Transformers' code says float32 (norms, rotary angles, softmax), and stored in f32; weights are f32
numbers to begin with. Other versions should give the same files to the last bit or two.

A file NAME.safetensors holds, in weft's names and orientation ([out, in]):
    metadata ini                            the model's section of an INI (adamw.safetensors: also the optimizer's, and [train] steps)
    ids, labels, positions, segments        i32 [samples, seq]; a label below 0 does not count
    weight/P                                parameter P
    state/P                                 state P that is no parameter
    gradient/P                              of the loss
    logits                                  [samples, seq, vocab]
    loss_sum, tokens, loss                  f64 [1]: sum over tokens that count, their number, sum / number
and adamw.safetensors, where every step has samples of its own:
    loss, grad_norm, lr                     f64 [steps]; norm before clipping
    step1/P, step2/P, ...                   parameter P after each step
"""

import os

import numpy as np
import torch
import transformers.modeling_rope_utils as rope_utils
import transformers.models.deepseek_v3.modeling_deepseek_v3 as deepseek
import transformers.models.gpt2.modeling_gpt2 as gpt2
import transformers.models.llama.modeling_llama as llama
import transformers.models.mixtral.modeling_mixtral as mixtral
import transformers.models.qwen3.modeling_qwen3 as qwen3
import transformers.models.qwen3_moe.modeling_qwen3_moe as qwen3_moe
from safetensors.numpy import save_file
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM)

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 50


class Wide:
    """torch, but its float32 is float64: Transformers' own code then computes in f64 throughout."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float32", "float") else getattr(torch, name)


def widen():
    for module in (llama, gpt2, mixtral, qwen3, qwen3_moe, deepseek, rope_utils):
        module.torch = Wide()
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)


def randomize(model, generator):
    """Larger than initial values usually are, so that no part of the model is almost linear or almost without effect."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=generator)
            norm = "norm" in name or "ln_" in name
            bias = name.endswith("bias")
            scale, shift = (0.3, 1.0) if norm and not bias else (0.2, 0.0) if bias else (0.25, 0.0)
            if "embed_tokens" in name or "wte" in name:
                scale = 0.5
            p.copy_((x * scale + shift).to(torch.float32).double())


# ---- from Transformers' names and orientation to weft's ----


def same(name, tensor):
    yield name, tensor


def split_gpt2(name, tensor):
    """Conv1D keeps [in, out], and q, k, v in one."""
    if ".c_attn." in name:
        for part, x in zip("qkv", tensor.chunk(3, dim=-1)):
            yield name.replace("c_attn", part + "_proj"), x.T if x.dim() == 2 else x
    elif any(s in name for s in (".c_proj.weight", ".c_fc.weight")):
        yield name, tensor.T
    else:
        yield name, tensor


def split_experts(names):
    """gate_up_proj [E, 2 ffn, dim] is two weights."""

    def rename(name, tensor):
        if name.endswith(".gate_up_proj"):
            for part, x in zip(names[:2], tensor.chunk(2, dim=1)):
                yield name.replace("gate_up_proj", part + ".weight"), x
        elif name.endswith(".experts.down_proj"):
            yield name.replace("down_proj", names[2] + ".weight"), tensor
        else:
            yield name, tensor

    def of_mixtral(name, tensor):
        for key, x in rename(name, tensor):
            yield key.replace(".mlp.", ".block_sparse_moe."), x

    return of_mixtral if names[0] == "w1" else rename


def put(out, prefix, name, tensor, rename):
    for key, x in rename(name, tensor):
        out[f"{prefix}/{key}"] = np.ascontiguousarray(x.detach().numpy().astype(np.float32))


# ---- data and one computation ----


class Data:
    def __init__(self, samples, seq, seed, positions=None, segments=None):
        rng = np.random.default_rng(seed)
        self.ids = rng.integers(0, VOCAB, (samples, seq))
        self.labels = rng.integers(0, VOCAB, (samples, seq))
        self.labels[0, 2] = self.labels[0, -1] = self.labels[-1, 0] = -1
        self.labels[-1, seq // 2 :: 3] = -1
        self.positions = np.broadcast_to(np.arange(seq) if positions is None else positions, (samples, seq)).copy()
        self.segments = np.broadcast_to(np.zeros(seq, int) if segments is None else segments, (samples, seq)).copy()

    def rows(self, first, n):
        part = object.__new__(Data)
        for key in ("ids", "labels", "positions", "segments"):
            setattr(part, key, getattr(self, key)[first : first + n])
        return part

    def mask(self):
        """Added to the scores: a token sees those of its segment that do not come after it."""
        seq = self.ids.shape[1]
        sees = np.tril(np.ones((seq, seq), bool)) & (self.segments[:, :, None] == self.segments[:, None, :])
        return torch.where(torch.from_numpy(sees), 0.0, torch.finfo(torch.float64).min)[:, None]

    def save(self, out):
        for key in ("ids", "labels", "positions", "segments"):
            out[key] = getattr(self, key).astype(np.int32)


def compute(model, data):
    logits = model(input_ids=torch.from_numpy(data.ids), position_ids=torch.from_numpy(data.positions), attention_mask=data.mask()).logits
    assert logits.dtype == torch.float64
    labels = torch.from_numpy(data.labels)
    loss_sum = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum")
    return logits, loss_sum, int((labels >= 0).sum())


def number(x):
    return np.atleast_1d(np.asarray(x, dtype=np.float64))


def save(name, out, ini):
    path = os.path.join(HERE, name + ".safetensors")
    save_file(out, path, metadata={"ini": ini})
    os.chmod(path, 0o644)
    print(f"{name}: {os.path.getsize(path)} bytes, loss {out['loss']}")


def write_case(name, model, data, rename, ini):
    randomize(model, torch.Generator().manual_seed(len(name)))
    model.train()
    logits, loss_sum, tokens = compute(model, data)
    (loss_sum / tokens).backward()
    out = {"logits": logits.detach().numpy().astype(np.float32), "loss_sum": number(loss_sum.item()), "tokens": number(tokens)}
    out["loss"] = out["loss_sum"] / out["tokens"]
    data.save(out)
    for key, p in model.named_parameters():
        put(out, "weight", key, p, rename)
        put(out, "gradient", key, p.grad, rename)
    for key, p in model.named_buffers():
        if key.endswith("e_score_correction_bias"):
            put(out, "state", key, p, same)
    save(name, out, ini)


def make_llama(dim=16, layers=2, heads=4, kv_heads=2, head_dim=6, ffn=26, tied=False, rope=None):
    rope = {"rope_type": "default", "rope_theta": 500000.0} | (rope or {})
    config = LlamaConfig(hidden_size=dim, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
                         intermediate_size=ffn, vocab_size=VOCAB, rms_norm_eps=1e-5, rope_parameters=rope, tie_word_embeddings=tied,
                         max_position_embeddings=4096, attn_implementation="eager", use_cache=False)
    ini = (f"[llama3]\ndim = {dim}\nn_layers = {layers}\nn_heads = {heads}\nn_kv_heads = {kv_heads}\nhead_dim = {head_dim}\nffn_dim = {ffn}\n"
           f"vocab_size = {VOCAB}\nrope_theta = 500000\ntied = {'yes' if tied else 'no'}\n")
    if "factor" in rope:
        ini += (f"rope_scaling = yes\nrope_factor = {rope['factor']}\nrope_low = {rope['low_freq_factor']}\nrope_high = {rope['high_freq_factor']}\n"
                f"rope_original = {rope['original_max_position_embeddings']}\n")
    return LlamaForCausalLM(config), ini


def make_gpt2(dim=16, layers=2, heads=4, ffn=44, positions=20):
    config = GPT2Config(n_embd=dim, n_layer=layers, n_head=heads, n_inner=ffn, n_positions=positions, vocab_size=VOCAB, resid_pdrop=0, embd_pdrop=0,
                        attn_pdrop=0, tie_word_embeddings=True, attn_implementation="eager", use_cache=False, bos_token_id=0, eos_token_id=0)
    ini = f"[gpt2]\ndim = {dim}\nn_layers = {layers}\nn_heads = {heads}\nffn_dim = {ffn}\nvocab_size = {VOCAB}\nn_positions = {positions}\n"
    return GPT2LMHeadModel(config), ini


def make_of_experts(Config, Model, section, dim=16, layers=2, heads=4, kv_heads=2, head_dim=6, ffn=10, experts=0, k=2, **keys):
    ffn_key = "moe_intermediate_size" if Model is Qwen3MoeForCausalLM else "intermediate_size"
    keys |= {} if not experts else {"num_local_experts" if Model is MixtralForCausalLM else "num_experts": experts, "num_experts_per_tok": k}
    config = Config(hidden_size=dim, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=VOCAB,
                    rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False, max_position_embeddings=4096,
                    attn_implementation="eager", experts_implementation="eager", use_cache=False, **{ffn_key: ffn}, **keys)
    ini = (f"[{section}]\ndim = {dim}\nn_layers = {layers}\nn_heads = {heads}\nn_kv_heads = {kv_heads}\nhead_dim = {head_dim}\nffn_dim = {ffn}\n"
           f"vocab_size = {VOCAB}\nrope_theta = 10000\nnorm_eps = 1e-5\nn_experts = {experts}\ntop_k = {k}\nbalance = 0\n")
    return Model(config), ini + (f"expert_dim = {ffn}\ntied = no\n" if section == "qwen3" else "")


def write_experts():
    model, ini = make_of_experts(Qwen3Config, Qwen3ForCausalLM, "qwen3", ffn=26)
    write_case("qwen3", model, Data(2, 12, 8), same, ini)
    model, ini = make_of_experts(Qwen3MoeConfig, Qwen3MoeForCausalLM, "qwen3", experts=8, k=3, norm_topk_prob=True)
    write_case("qwen3_moe", model, Data(2, 12, 9), split_experts(["gate_proj", "up_proj", "down_proj"]), ini)
    model, ini = make_of_experts(MixtralConfig, MixtralForCausalLM, "mixtral", experts=8)
    write_case("mixtral", model, Data(2, 12, 10), split_experts(["w1", "w3", "w2"]), ini)


def write_deep():
    """Qwen3's attention before DeepSeek-V3's experts: sigmoid, groups, a bias, shared experts, scale. Biases are large enough to choose others, and
    of these data no choice is so close that rounding to bf16 would change it."""
    torch.manual_seed(0)
    model, ini = make_of_experts(Qwen3MoeConfig, Qwen3MoeForCausalLM, "deep", experts=8, k=3)
    config = DeepseekV3Config(hidden_size=16, moe_intermediate_size=10, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=2,
                              routed_scaling_factor=1.5, norm_topk_prob=True, experts_implementation="eager")
    for layer in model.model.layers:
        layer.mlp = deepseek.DeepseekV3MoE(config)
        layer.mlp.gate.e_score_correction_bias.copy_((0.3 * torch.randn(8)).to(torch.float32).double() - 0.2)
    ini += "expert_dim = 10\nscore = sigmoid\ngroups = 4\nkeep = 2\nshared = 20\nscale = 1.5\nbias_rate = 0.001\n"
    write_case("deep", model, Data(2, 12, 145), split_experts(["gate_proj", "up_proj", "down_proj"]), ini)


def yarn_rope():
    """Of two pairs in 512 positions the first turns 81 times, the second 0.8 times; both factors are other than 1."""
    return {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 0.25, "mscale": 0.7, "mscale_all_dim": 1.2,
            "original_max_position_embeddings": 512}


def make_deepseek(q_rank, rope, experts=8, k=3, groups=4, keep=2, shared=2, scale=1.5, norm=True):
    config = DeepseekV3Config(hidden_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=q_rank, kv_lora_rank=8,
                              qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, intermediate_size=26, moe_intermediate_size=10, n_routed_experts=experts,
                              num_experts_per_tok=k, n_group=groups, topk_group=keep, n_shared_experts=shared, first_k_dense_replace=1, norm_topk_prob=norm,
                              routed_scaling_factor=scale, vocab_size=VOCAB, rms_norm_eps=1e-6, rope_parameters=rope, max_position_embeddings=4096,
                              attn_implementation="eager", experts_implementation="eager", use_cache=False)
    model = DeepseekV3ForCausalLM(config)
    generator = torch.Generator().manual_seed(1)
    for layer in model.model.layers[1:]:
        layer.mlp.gate.e_score_correction_bias.copy_((0.3 * torch.randn(experts, generator=generator)).to(torch.float32).double() - 0.2)
    ini = (f"[deepseek3]\ndim = 16\nn_layers = 3\nn_heads = 4\nq_rank = {q_rank or 0}\nkv_rank = 8\nnope_dim = 6\nrope_dim = 4\nv_dim = 5\nffn_dim = 26\n"
           f"vocab_size = {VOCAB}\ndense_layers = 1\nn_experts = {experts}\ntop_k = {k}\nexpert_dim = 10\nn_shared = {shared}\nn_groups = {groups}\n"
           f"keep_groups = {keep}\nroute_scale = {scale}\nnorm_top_k = {'yes' if norm else 'no'}\nbalance = 0\n")
    if rope["rope_type"] == "yarn":
        ini += (f"yarn = yes\nrope_factor = {rope['factor']}\nrope_slow = {rope['beta_slow']}\nrope_fast = {rope['beta_fast']}\n"
                f"rope_original = {rope['original_max_position_embeddings']}\nmscale = {rope['mscale']}\nmscale_all = {rope['mscale_all_dim']}\n")
    return model, ini


def write_deepseek():
    rename = split_experts(["gate_proj", "up_proj", "down_proj"])
    model, ini = make_deepseek(10, yarn_rope())
    write_case("deepseek3", model, Data(2, 16, 1112, positions=61 * np.arange(16)), rename, ini)
    model, ini = make_deepseek(None, {"rope_type": "default", "rope_theta": 10000.0}, groups=1, keep=1, shared=1, norm=False)
    write_case("deepseek3_plain", model, Data(2, 12, 177), rename, ini)


def write_llama(name, data, **sizes):
    model, ini = make_llama(**sizes)
    write_case(name, model, data, same, ini)


def scaled_rope():
    """With head_dim 8 the four frequencies turn 81, 3, 0.1 and 0.004 times in 512 positions: kept, between, stretched."""
    return {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}


def write_adamw(steps=5):
    model, ini = make_llama(dim=8, layers=1, heads=2, kv_heads=1, head_dim=4, ffn=12)
    lr, warmup, decay, max_norm = 0.02, 2, 0.1, 0.6
    ini += (f"[adamw]\nlr = {lr}\nbeta1 = 0.9\nbeta2 = 0.95\neps = 1e-8\nweight_decay = {decay}\ndecay = matrices\nmax_norm = {max_norm}\n"
            f"warmup_steps = {warmup}\nlr_decay = linear\n[train]\nsteps = {steps}\n")
    randomize(model, torch.Generator().manual_seed(7))
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == matrix], "weight_decay": decay * matrix} for matrix in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8)
    data, out, losses, norms, rates = Data(2 * steps, 12, 5), {}, [], [], []
    data.save(out)
    for key, p in model.named_parameters():
        put(out, "weight", key, p, same)
    for step in range(1, steps + 1):
        _, loss_sum, tokens = compute(model, data.rows(2 * (step - 1), 2))
        optimizer.zero_grad()
        (loss_sum / tokens).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        # up in a line for `warmup` steps, then down in a line that would reach zero one step after the last
        rates.append(lr * step / warmup if step <= warmup else lr * (1 - (step - warmup - 1) / (steps - warmup)))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.step()
        losses.append(loss_sum.item() / tokens)
        for key, p in model.named_parameters():
            put(out, f"step{step}", key, p, same)
    out |= {"loss": number(losses), "grad_norm": number(norms), "lr": number(rates)}
    save("adamw", out, ini)


def main():
    widen()
    write_llama("llama", Data(2, 12, 1))
    write_llama("llama_tied", Data(4, 9, 2), dim=12, head_dim=4, ffn=44, tied=True)
    write_llama("llama_scaled", Data(2, 16, 3, positions=61 * np.arange(16)), head_dim=8, kv_heads=1, layers=1, rope=scaled_rope())
    write_llama("llama_packed", Data(2, 12, 4, positions=[0, 1, 2, 3, 4, 0, 1, 2, 0, 0, 1, 2], segments=[0] * 5 + [1] * 3 + [2] + [3] * 3), dim=12,
                head_dim=2, kv_heads=4, layers=1)
    model, ini = make_gpt2()
    write_case("gpt2", model, Data(2, 12, 6), split_gpt2, ini)
    write_adamw()
    write_experts()
    write_deep()
    write_deepseek()


if __name__ == "__main__":
    main()
