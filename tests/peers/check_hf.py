# SPDX-License-Identifier: Apache-2.0
"""check_hf.py WEFT [PAGE]: Transformers and weft give the same logits and texts, whichever of the two wrote the folder.

Needs torch, transformers and safetensors. PAGE: what was compared and found is written there (docs/verified.md)."""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
import transformers
from transformers import (AutoConfig, AutoModelForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

import card

WEFT = os.path.abspath(sys.argv[1])
PAGE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
VOCAB, SEQ = 258, 48
SIZES = {"vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 512}
SCALED = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, head_dim=24, rms_norm_eps=1e-5,
                                                  rope_parameters={"rope_type": "default", "rope_theta": 1234.5})),
    "llama_tied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=SCALED)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=SEQ, bos_token_id=256, eos_token_id=257)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=24)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, num_key_value_heads=2, head_dim=24, num_experts=8, num_experts_per_tok=3,
                                                            moe_intermediate_size=40, norm_topk_prob=True)),
    "qwen3_moe_mixed": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES | {"num_hidden_layers": 4}, num_key_value_heads=2, head_dim=24, num_experts=8,
                                                                  num_experts_per_tok=3, moe_intermediate_size=40, decoder_sparse_step=2,
                                                                  mlp_only_layers=[3])),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=6, num_experts_per_tok=2)),
}


def deepseek():
    """Biases of its own: they are no parameters."""
    sizes = SIZES | dict(num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=12, num_mtp_layers=0)
    experts = dict(moe_intermediate_size=40, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=2, first_k_dense_replace=1)
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 32}
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes, **experts, rope_parameters=yarn))
    torch.manual_seed(2)
    for layer in model.model.layers[1:]:
        layer.mlp.gate.e_score_correction_bias.copy_(0.2 * torch.randn(8))
    return model


MODELS["deepseek3"] = deepseek


def run(*words):
    done = subprocess.run([WEFT, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"weft {' '.join(words)}: {done.stderr}"
    return done.stdout


def randomize(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = ("norm" in name or "ln_" in name) and not name.endswith("bias")
            p.copy_(torch.randn(p.shape) * 0.12 + (1 if norm else 0))


def write_text():
    words = "the a of and to in that it was for with his her they on as at be this have from or one by".split()
    random.seed(3)
    with open("text.txt", "w") as f:
        f.write(" ".join(random.choice(words) for _ in range(4000)))


def settings(folder):
    """What weft convert --settings prints, made small and without a checkpoint of its own."""
    ini = run("convert", "--settings", folder)
    ini = ini.replace("    bf16                ; activations and weight copies in bf16\n", "").replace("    ckpt                ; saves and resumes\n", "")
    return ini.replace("train.txt", "text.txt").replace("    metrics\n", "    dump\n")


def weft_logits(folder, name, *options):
    """Ids, positions and logits of the first step of a run that begins with the folder."""
    with open(f"{name}.ini", "w") as f:
        f.write(settings(folder))
    run("train", f"{name}.ini", "-o", f"weft.dir={name}.run", "-o", "train.steps=1", "-o", f"train.seq_len={SEQ}", "-o", "train.global_batch=4",
        "-o", "dump.what=tokens logits", "-o", "dump.values=positions", *options)
    values = load_file(f"{name}.run/dump/step-1/values.safetensors")
    pick = {}
    for key, value in values.items():
        for word in ("ids", "positions", "logits"):
            if word in key:
                pick.setdefault(word, []).append((key, value))
    ids, positions = pick["ids"][0][1].long(), pick["positions"][0][1].long()
    logits = torch.cat([value.reshape(-1, VOCAB) for _, value in sorted(pick["logits"])])
    return ids.reshape(-1, SEQ), positions.reshape(-1, SEQ), logits.reshape(-1, SEQ, VOCAB)


def load(folder):
    """Strictly: every tensor has its place, and every place its tensor."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value and key != "conversion_errors"}
    assert not wrong and not info.get("conversion_errors"), f"{folder}: {wrong}"
    return model.eval()


def compare(what, folder, ids, positions, got):
    model = load(folder)
    # one document a sample: no mask but the causal one
    assert (positions[:, 1:] - positions[:, :-1] == 1).all(), "a sample holds several documents"
    with torch.no_grad():
        want = model(input_ids=ids, position_ids=positions).logits.double()
    got = got.double()
    error = ((got - want).norm(dim=-1) / want.norm(dim=-1)).max().item()
    kl = torch.nn.functional.kl_div(got.log_softmax(-1), want.log_softmax(-1), reduction="none", log_target=True).sum(-1).max().item()
    assert error < 1e-4 and kl < 1e-6, f"{what}: relative error {error:.3g}, KL {kl:.3g}"
    print(f"ok - {what}: relative error {error:.2g}, KL {kl:.2g}")
    return error


def compare_texts(what, folder, length=24):
    """The likeliest continuations of some prompts, id by id."""
    model = load(folder)
    prompts = [[1, 2, 3], [40, 7], [200, 100, 50, 25, 12]]
    for ids in prompts:
        with torch.no_grad():
            want = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=length, min_new_tokens=length, pad_token_id=0)[0, len(ids) :].tolist()
        got = json.loads(run("generate", folder, "--ids", " ".join(map(str, ids)), "--greedy", "--max-tokens", str(length), "--json"))["ids"]
        got = got[len(ids) :] if got[: len(ids)] == ids and len(got) > length else got
        n = min(len(got), len(want))
        assert n > 0 and got[:n] == want[:n], f"{what}: {got} and {want}"
    print(f"ok - {what}: the same greedy text of {len(prompts)} prompts")
    return len(prompts) * length


def same_bytes(a, b):
    def tensors(folder):
        found = {}
        for path in glob.glob(f"{folder}/*.safetensors"):
            found |= load_file(path)
        return found

    x, y = tensors(a), tensors(b)
    assert sorted(x) == sorted(y), set(x) ^ set(y)
    for name in x:
        assert x[name].dtype == y[name].dtype and torch.equal(x[name].view(torch.uint8), y[name].view(torch.uint8)), name
    return len(x)


def check_stacked(name, model):
    """As Transformers keeps experts in memory: one tensor for all of a block."""
    model.save_pretrained(f"{name}.stacked", save_original_format=False)
    run("convert", f"{name}.stacked", f"{name}.weft2")
    run("convert", f"{name}.weft2", f"{name}.back2")
    same_bytes(f"{name}.hf", f"{name}.back2")
    print(f"ok - {name}: experts that are stored together, the same bytes")


def check(name, make):
    found = {}
    model = make()
    randomize(model)
    model.save_pretrained(f"{name}.hf", max_shard_size="100KB")
    ids, positions, got = weft_logits(f"{name}.hf", name)
    found["loaded"] = compare(f"{name}: what Transformers saved, loaded by weft", f"{name}.hf", ids, positions, got)
    found["texts"] = compare_texts(f"{name}: what Transformers saved", f"{name}.hf")

    run("convert", f"{name}.hf", f"{name}.weft")
    run("convert", f"{name}.weft", f"{name}.back", "--max-shard-size", "50KB")
    found["tensors"] = same_bytes(f"{name}.hf", f"{name}.back")
    a, b = AutoConfig.from_pretrained(f"{name}.hf").to_dict(), AutoConfig.from_pretrained(f"{name}.back").to_dict()
    differ = {k: (a.get(k), b.get(k)) for k in a.keys() | b.keys() if a.get(k) != b.get(k)}
    for harmless in ("transformers_version", "_name_or_path", "architectures", "dtype", "torch_dtype", "n_inner"):
        differ.pop(harmless, None)
    if "hidden_size" in a and differ.get("head_dim") == (None, a["hidden_size"] // a["num_attention_heads"]):
        del differ["head_dim"]
    assert not differ, f"{name}: config.json differs after there and back: {differ}"
    print(f"ok - {name}: there and back, the same bytes and the same config")
    found["stacked"] = any("experts" in key for key, _ in model.named_parameters())
    if found["stacked"]:
        check_stacked(name, model)

    # trained by weft, exported, loaded by both
    with open(f"{name}.train.ini", "w") as f:
        f.write(settings(f"{name}.hf").replace("    dump\n", "    ckpt\n"))
    run("train", f"{name}.train.ini", "-o", f"weft.dir={name}.trained", "-o", "train.steps=3", "-o", f"train.seq_len={SEQ}", "-o", "train.global_batch=4",
        "-o", "adamw.lr=1e-2", "-o", "adamw.warmup_steps=0")
    run("convert", f"{name}.trained", f"{name}.exported")
    ids, positions, got = weft_logits(f"{name}.exported", f"{name}.again")
    found["exported"] = compare(f"{name}: what weft trained and exported, loaded by Transformers", f"{name}.exported", ids, positions, got)
    found["texts"] += compare_texts(f"{name}: what weft exported", f"{name}.exported")
    before = load_file(sorted(glob.glob(f"{name}.hf/*.safetensors"))[0])
    after = load_file(f"{name}.exported/model.safetensors")
    assert any(not torch.equal(t, after[k]) for k, t in before.items()), f"{name}: three steps changed nothing"
    found |= {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())}
    return found


CARD = """
## {class}

| what | result |
|---|---|
| model | {name}: {parameters:,} parameters, random, f32 |
| Transformers' folder as a checkpoint of weft's and back | {tensors} tensors, each the same to the bit; `config.json` says the same{stacked} |
| logits of its folder, loaded by weft: largest difference of 4 x {seq} places, over their norm | {loaded:.1e} |
| three steps of training by weft, exported, loaded by Transformers strictly: the same | {exported:.1e} |
| greedy text of both folders, weft's and Transformers' | {texts} ids of 6 texts, all equal |
"""


def print_card(name, found):
    stacked = "; a folder whose experts lie together gives the same" if found["stacked"] else ""
    return CARD.format(**found | {"name": name, "seq": SEQ, "stacked": stacked})


def main():
    cards = {}
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        os.environ["XDG_CACHE_HOME"] = os.path.join(top, "cache")
        write_text()
        for name, make in MODELS.items():
            cards[name] = check(name, make)
    if PAGE:
        card.write(PAGE, WEFT, "check_hf.py", "Transformers", transformers.__version__, ", in f32", [print_card(*pair) for pair in cards.items()])


if __name__ == "__main__":
    main()
