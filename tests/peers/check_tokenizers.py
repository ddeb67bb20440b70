# SPDX-License-Identifier: Apache-2.0
"""Tokenizers against Hugging Face's tokenizers and tiktoken: check_tokenizers.py WEFT [TREE]. Vocabularies that `weft tokenize --train` makes must
equal those of BpeTrainer, ids must equal both libraries' ids, and the files must load in transformers. Prints one line a check; exit code 1 if one
fails. Needs tokenizers, tiktoken and transformers."""
import base64
import json
import os
import random
import subprocess
import sys
import tempfile

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

WEFT = os.path.abspath(sys.argv[1])
TREE = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(TREE, "tests", "golden", "tokenizer")
PATTERNS = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "own": r"\p{L}+|[^\p{L}]+",
}
failures = 0


def check(ok, what):
    global failures
    failures += not ok
    print(f"{'ok' if ok else 'not ok'} - {what}", flush=True)


def weft(*args, text=None):
    done = subprocess.run([WEFT, "tokenize", *args], input=text, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"weft tokenize {' '.join(args)}: {done.stderr.decode()}")
    return done.stdout


def splitter(pattern):
    if pattern == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(documents, pattern, size, frequency, longest, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splitter(pattern)
    more = {"max_token_length": longest + 1} if longest else {}
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=frequency, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **more)
    tokenizer.train_from_iterator(documents, trainer)
    return json.loads(tokenizer.to_str())["model"]


def same_model(path, want):
    with open(path, encoding="utf-8") as file:
        got = json.load(file)["model"]
    return got["vocab"] == want["vocab"] and got["merges"] == [list(m) for m in want["merges"]]


def check_training(work, documents, pattern, size, frequency=2, longest=0, special=("<|endoftext|>",), what=""):
    files = []
    for i, document in enumerate(documents):
        files.append(os.path.join(work, f"{i}.txt"))
        with open(files[-1], "w", encoding="utf-8", newline="") as file:
            file.write(document)
    args = ["--train", "--vocab-size", str(size), "--min-frequency", str(frequency), "--out", work, "--overwrite", "--special", " ".join(special),
            "--max-word", "1000000", "--pattern", PATTERNS["own"] if pattern == "own" else pattern]
    args += ["--max-token", str(longest)] if longest else []
    weft(*args, "--", *files)
    want = train(documents, pattern, size, frequency, longest, list(special))
    check(same_model(os.path.join(work, "tokenizer.json"), want), f"training equals BpeTrainer: {what or pattern}, {size} ids")
    for file in files:
        os.unlink(file)


def texts(corpus, seed):
    generator = random.Random(seed)
    pieces = ["<|endoftext|>", " ", "\n\n", "\r\n", "'s", "'LL", "123456", "é", "日本", "😀", "\u0301", "\t", "a", "Z", "_", "…", "\u00a0", "\u2028", "ß", "ſ"]
    yield corpus
    for _ in range(200):
        yield "".join(generator.choice(pieces) for _ in range(generator.randint(0, 30)))
        at = generator.randrange(len(corpus))
        yield corpus[at:at + generator.randint(0, 300)]


def check_ids(folder, corpus):
    path = os.path.join(folder, "tokenizer.json")
    theirs, documents = Tokenizer.from_file(path), list(texts(corpus, 7))
    lines = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
    got = [json.loads(line) for line in weft("--tokenizer", path, "--json", "--format", "jsonl", text=lines).splitlines()]
    check(got == [e.ids for e in theirs.encode_batch(documents, add_special_tokens=False)], f"ids equal tokenizers': {len(documents)} documents")
    back = [json.loads(line) for line in weft("--tokenizer", path, "--decode", "--json", text=json_lines(got)).splitlines()]
    check(back == theirs.decode_batch(got, skip_special_tokens=False) == documents, "texts equal after decoding")
    theirs.encode_special_tokens = True
    got = [json.loads(line) for line in weft("--tokenizer", path, "--json", "--no-special", "--format", "jsonl", text=lines).splitlines()]
    check(got == [e.ids for e in theirs.encode_batch(documents, add_special_tokens=False)], "ids equal tokenizers' with --no-special")


def json_lines(lists):
    return "".join(json.dumps(ids) + "\n" for ids in lists).encode()


def byte_alphabet():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(others)}


def check_ranks(work, folder, corpus):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)["model"]["vocab"]
    letters = byte_alphabet()
    del vocabulary["<|endoftext|>"]
    ordered = sorted(vocabulary, key=vocabulary.get)
    ranks = {bytes(letters[c] for c in token): rank for rank, token in enumerate(ordered)}
    path = os.path.join(work, "ranks.tiktoken")
    with open(path, "wb") as file:
        for token, rank in ranks.items():
            file.write(base64.b64encode(token) + b" %d\n" % rank)
    special = {"<|endoftext|>": len(ranks)}
    theirs, documents = tiktoken.Encoding("ours", pat_str=PATTERNS["llama3"], mergeable_ranks=ranks, special_tokens=special), list(texts(corpus, 8))
    lines = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
    args = ["--tokenizer", path, "--pattern", "llama3", "--special", "<|endoftext|>", "--format", "jsonl", "--json"]
    got = [json.loads(line) for line in weft(*args, text=lines).splitlines()]
    check(got == [theirs.encode(d, allowed_special="all") for d in documents], "ids of a rank file equal tiktoken's")
    got = [json.loads(line) for line in weft(*args, "--no-special", text=lines).splitlines()]
    check(got == [theirs.encode(d, disallowed_special=()) for d in documents], "ids of a rank file equal tiktoken's with --no-special")


def check_blanks(work, corpus):
    """Vocabularies in the manner of SentencePiece, which write a blank as U+2581 and know no words."""
    blank = "\u2581"
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=1500, special_tokens=special + bytes_, show_progress=False))
    model = json.loads(tokenizer.to_str())
    model["added_tokens"] = model["added_tokens"][:3]
    replace = normalizers.Replace(" ", blank)
    kinds = {
        "put in front": (normalizers.Sequence([normalizers.Prepend(blank), replace]), None),
        "replaced": (replace, pre_tokenizers.Split(" ", "merged_with_previous")),
        "by Metaspace": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        "split by Metaspace": (None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)),
    }
    documents = list(texts(corpus.replace("<|endoftext|>", "<s>"), 9)) + [f"{corpus} a{blank} b{blank}{blank}c " * 30]
    lines = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
    path, large = os.path.join(work, "blanks.json"), os.path.join(work, "large.txt")
    with open(large, "w", encoding="utf-8", newline="") as file:
        file.write(documents[-1])
    for kind, (normalizer, splitter_) in kinds.items():
        theirs = Tokenizer.from_str(json.dumps(model | {"pre_tokenizer": None}))
        theirs.decoder = decoders.Sequence([decoders.Replace(blank, " "), decoders.ByteFallback(), decoders.Fuse()])
        if normalizer:
            theirs.normalizer = normalizer
        if splitter_:
            theirs.pre_tokenizer = splitter_
        theirs.save(path)
        want = [e.ids for e in theirs.encode_batch(documents, add_special_tokens=False)]
        got = [json.loads(line) for line in weft("--tokenizer", path, "--json", "--format", "jsonl", text=lines).splitlines()]
        check(got == want, f"ids equal tokenizers' where blanks are {kind}: {len(documents)} documents")
        parts = [json.loads(weft("--tokenizer", path, "--json", "--threads", str(n), large)) for n in (1, 3)]
        check(all(ids == want[-1] for ids in parts), f"... and those of {len(documents[-1])} characters in one, in parts")


def main():
    with open(os.path.join(GOLDEN, "corpus.txt"), encoding="utf-8", newline="") as file:
        corpus = file.read()
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as work:
        for pattern in ("gpt2", "llama3", "qwen2", "own"):
            check_training(work, [corpus], pattern, 700)
        check_training(work, [corpus, corpus[:500], "", corpus[500:900]], "llama3", 3000, 0, what="several files")
        check_training(work, [corpus], "llama3", 600, 2, 0, ("<|begin|>", "<|endoftext|>", "the", "and"), what="special tokens that are words")
        check_training(work, [corpus], "gpt2", 900, 2, 4, what="short tokens")
        for i in range(20):
            letters = "ab" if i % 2 else "abcd "
            documents = ["".join(generator.choice(letters) for _ in range(generator.randint(1, 90))) for _ in range(generator.randint(1, 30))]
            check_training(work, documents, "gpt2", generator.choice([260, 280, 400, 2000]), generator.choice([0, 1, 2, 5]),
                           generator.choice([0, 0, 2, 3, 5]), what=f"random letters {i}")
        for pattern in ("gpt2", "llama3"):
            with open(os.path.join(GOLDEN, f"{pattern}.json"), encoding="utf-8") as file:
                size = len(json.load(file)["model"]["vocab"])
            want = train([corpus], pattern, size, 2, 0, ["<|endoftext|>"])
            check(same_model(os.path.join(GOLDEN, f"{pattern}.json"), want), f"the golden {pattern}.json equals BpeTrainer")
        folder = os.path.join(work, "t")
        weft("--train", "--vocab-size", "900", "--out", folder, os.path.join(GOLDEN, "corpus.txt"))
        check_ids(folder, corpus)
        check_ranks(work, folder, corpus)
        check_blanks(work, corpus)
        loaded = AutoTokenizer.from_pretrained(folder)
        check(loaded.bos_token == loaded.eos_token == "<|endoftext|>" and loaded.vocab_size == 900, "transformers loads the folder")
        check(loaded.decode(loaded(corpus)["input_ids"]) == "<|endoftext|>" + corpus, "transformers gives the text back, with BOS in front")
    return 1 if failures else 0


sys.exit(main())
