# SPDX-License-Identifier: Apache-2.0
"""check_generate.py WEFT: a folder that weft trained and exported, or that Transformers saved, continues prompts with the same text in both, with all that
tokenizers add to prompts. Needs torch, transformers and tokenizers."""
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WEFT = os.path.abspath(sys.argv[1])
PROMPTS = ["The sea", "Füße, naïve 日本語 😀", "of the", "  two blanks\tand a tab"]


def run(*words):
    done = subprocess.run([WEFT, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"weft {' '.join(words)}: {done.stderr}"
    return done.stdout


def write_text():
    words = "the a of and to in that it was for Füße naïve 日本語 😀 as at be this have from or one by sea two blanks".split()
    random.seed(3)
    with open("text.jsonl", "w") as f:
        for _ in range(300):
            f.write(json.dumps({"text": " ".join(random.choice(words) for _ in range(30))}) + "\n")
    with open("text.txt", "w") as f:
        f.write(" ".join(random.choice(words) for _ in range(9000)))


def compare(what, folder, streams=True):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lines = run("generate", folder, "--greedy", "--json", "--max-tokens", "24", *[word for prompt in PROMPTS for word in ("--prompt", prompt)]).splitlines()
    assert len(lines) == len(PROMPTS)
    for prompt, line in zip(PROMPTS, lines):
        got, given = json.loads(line), tokenizer(prompt, return_tensors="pt")
        assert got["prompt_ids"] == given["input_ids"][0].tolist(), f"{what}: {prompt!r} is {got['prompt_ids']} and {given['input_ids'][0].tolist()}"
        ids = model.generate(input_ids=given["input_ids"], attention_mask=given["attention_mask"], max_new_tokens=24, do_sample=False, pad_token_id=0)
        new = ids[0, given["input_ids"].shape[1]:].tolist()
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        while new and new[-1] in ends:
            new.pop()
        assert got["ids"] == new, f"{what}: {prompt!r} goes on with {got['ids']} and {new}"
        want = tokenizer.decode(given["input_ids"][0].tolist() + new, skip_special_tokens=False)
        first = tokenizer.decode(given["input_ids"][0, :1])
        begins = given["input_ids"][0, 0].item() == tokenizer.bos_token_id
        shown = got["prompt"] + got["text"]
        assert shown == (want[len(first):].removeprefix(" ") if begins else want) or shown == want.removeprefix(first), f"{what}: {shown!r}, not {want!r}"
        plain = run("generate", folder, "--greedy", "--max-tokens", "24", "--prompt", prompt)
        assert not streams or plain == shown + "\n", f"{what}: word by word {plain!r}, at once {shown!r}"
    print(f"ok - {what}")


def train(model, name, section):
    with open(f"{name}.ini", "w") as f:
        f.write(f"[weft]\nplugins = {model} text cpu adamw ckpt\nthreads = 1\ndir = {name}\n[train]\nsteps = 40\nseq_len = 64\nglobal_batch = 8\n"
                f"[adamw]\nlr = 1e-2\nwarmup_steps = 0\n[{model}]\ndim = 32\nn_layers = 2\nn_heads = 4\nffn_dim = 64\nvocab_size = auto\n"
                + ("n_positions = 128\n" if model == "gpt2" else "n_kv_heads = 2\n") + "[text]\npath = text.jsonl\n" + section)
    run("train", f"{name}.ini")
    run("convert", name, f"{name}.hf")


def randomize(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = ("norm" in name or "ln_" in name) and not name.endswith("bias")
            p.copy_(torch.randn(p.shape) * 0.12 + (1 if norm else 0))
    return model


def byte_level(template):
    """As GPT-2's and Llama 3's."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train(["text.txt"], trainers.BpeTrainer(vocab_size=400, special_tokens=["<|begin|>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]) if template else processors.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<|begin|>", eos_token="<|end|>")


def pieces():
    """As Llama 2's: blanks are a character, unknown characters are bytes."""
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    alphabet = [f"<0x{i:02X}>" for i in range(256)]
    t.train(["text.txt"], trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>", "</s>", *alphabet], limit_alphabet=40))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    t.add_special_tokens([AddedToken("<unk>", special=True), AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def save(name, tokenizer, llama, eos):
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if llama:
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=2, max_position_embeddings=128, **ids))
    else:
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=128, **ids))
    randomize(model).generation_config.eos_token_id = eos
    model.save_pretrained(name)
    tokenizer.save_pretrained(name)


def main():
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        os.environ["XDG_CACHE_HOME"] = os.path.join(top, "cache")
        write_text()
        run("tokenize", "--train", "--vocab-size", "400", "--out", "tok", "text.txt")
        run("tokenize", "--train", "--vocab-size", "400", "--special", "<b> <e>", "--bos", "<b>", "--eos", "<e>", "--out", "two", "text.txt")
        os.mkdir("bare")
        os.link("two/tokenizer.json", "bare/mine.json")
        for model in ("llama3", "gpt2"):
            for name, section in {"tok": "tokenizer = tok\n", "two": "tokenizer = two\n", "no bos": "tokenizer = tok\nbos = no\n",
                                  "named": "tokenizer = bare/mine.json\nbos = <e>\neos = <b>\n"}.items():
                train(model, f"{model}.{name.replace(' ', '_')}", section)
                compare(f"{model}, {name}: trained by weft", f"{model}.{name.replace(' ', '_')}.hf")
        save("hf.llama", byte_level(True), True, [1, 60])
        compare("a llama that begins texts with a mark, and has two that end them", "hf.llama")
        save("hf.gpt2", byte_level(False), False, 1)
        compare("a GPT-2 whose texts begin without a mark", "hf.gpt2")
        save("hf.pieces", pieces(), True, 2)
        # what follows a byte may make it unreadable after it was printed
        compare("a llama with bytes for unknown characters", "hf.pieces", streams=False)


if __name__ == "__main__":
    main()
