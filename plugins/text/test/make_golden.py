#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/: small tokenizers trained with Hugging Face's tokenizers, texts, and what that library makes of them. Needs the Python package
tokenizers and a folder of text to train on; the results are in the tree, so tests need neither.
Usage: make_golden.py FOLDER_OF_TEXT OUT"""
import json
import os
import random
import struct
import sys
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def corpus(folder):
    texts = []
    for base, dirs, names in os.walk(folder):
        dirs.sort()
        for name in sorted(names):
            with open(os.path.join(base, name), encoding="utf-8", errors="ignore") as f:
                texts.append(f.read(200_000))
        if sum(map(len, texts)) > 3_000_000:
            break
    return texts + [" ".join(ALPHABETS)]


ALPHABETS = [
    "the of and to in is that it he she they was his her with for on as are at by this we I'm you're don't it's we'll I'd They'VE ",
    "\u00e4\u00f6\u00fc\u00df\u00e9\u00e8\u00ea\u00f1\u00e7\u0153\u00c4\u0130\u0131\u015f\u0219\u017f\u212a\u01c5",
    "\u0430\u0431\u0432\u0433\u0434\u0435\u0451\u0416\u0439\u043d\u0438 \u03b1\u03b2\u03b3\u03b4\u03ac\u03ad \u03a3\u03c3\u03c2",
    "\u4e2d\u6587\u5b57\u7b26\u6d4b\u8bd5\u3002\uff0c\u65e5\u672c\u8a9e\u306e\u304c\u304e \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629\u064b\u0650 \u05e2\u05d1\u05e8\u05d9\u05ea \u0939\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea\u2764\ufe0f\U0001f44d\U0001f3fd\U00020000\U0001f9ff",
    "e\u0301a\u0316\u0301o\u0308\u0323u\u031b\u0323\u0344\u1e9b\u0323\u00c5\u212b\ufb01\uff21\u00bd\u2460\u33a5\u0958\u0344\u0f73",
    "\x00\x01\x1f\x7f\x80\x85\u00a0\u00ad\u180e\u200b\u2028\u2029\u202f\u3000\ufeff\ufffd\ufffe\uffff\U0010ffff\t\n\r\v\f ",
    "0123456789\u0660\u0967\u2167\u00b2\u3007\U0001d7d8 1234567 3.14 1,000,000 12:34 ",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u00a1\u00bf\u2014\u2026\u201c\u201d\u2019\u300c\u20ac\u2211\u2192",
    "    \t\t\n\n\r\n  \n \r\r ",
    "'s 't 're 've 'm 'll 'd 'S 'LL '\u017f can't WE'RE ",
    "\u2581\u2581 \u2581a <0x41> <0xE4> <0xFF> <unk> Ġ Ċ",
    "\u1c89\ua7cb\U00010d50\U0001e4ec\u0898\U00011938\U00011935\U00011930\U00016ea0\U000105c0\U00031350\U00010d40\u1df6\U0001145e",
    "aaaaaaaaabbbbbbbb          ",
]


def special(extra=()):
    return ["<|endoftext|>", "<s>", "</s>", *extra]


def added():
    return [
        AddedToken("<|left|>", lstrip=True, special=True),
        AddedToken("<|right|>", rstrip=True, special=True),
        AddedToken("<|both|>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("NORMAL", normalized=True),
        AddedToken("<|endoftext|>x", special=True),
        AddedToken("caf\u00e9", normalized=True, single_word=True),
        AddedToken("Two words", normalized=True, rstrip=True),
    ]


def byte_level(pattern, normalizer=None, ignore_merges=False, texts=(), size=1200, prefix=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    if pattern:
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special(), show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens(added())
    return t


def with_bytes(t, texts, size):
    """Trains merges over whole characters, with byte tokens for all others."""
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>", *BYTES], show_progress=False,
                                                     limit_alphabet=120))
    j = json.loads(t.to_str())
    j["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] not in BYTES]
    t = Tokenizer.from_str(json.dumps(j))
    t.add_tokens(added())
    return t


def llama2_decoder(strip=True):
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def tokenizers(texts):
    yield "gpt2", byte_level(None, texts=texts)
    yield "llama3", byte_level(LLAMA3, ignore_merges=True, texts=texts)
    yield "qwen", byte_level(QWEN, normalizers.NFC(), texts=texts)
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = llama2_decoder()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    t = with_bytes(t, texts, 900)
    t.pre_tokenizer = None
    yield "llama2", Tokenizer.from_str(json.dumps({**json.loads(t.to_str()), "pre_tokenizer": None}))
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    t.decoder = llama2_decoder()
    yield "metaspace", with_bytes(t, texts, 900)
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation("merged_with_previous"),
                                               pre_tokenizers.Split(" ", "merged_with_next")])
    t.decoder = decoders.Fuse()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", "<s>"], show_progress=False, limit_alphabet=150))
    t.add_tokens(added())
    yield "sequence", t


def random_text(rng):
    parts = []
    tokens = special() + [a.content for a in added()] + ["cafe\u0301", "normal", "Word word words", "  <|left|>  ", " <|right|> \n", " word "]
    for _ in range(rng.choice([1, 2, 3, 5, 8, 20])):
        kind = rng.random()
        alphabet = rng.choice(ALPHABETS)
        if kind < 0.45:
            parts.append("".join(rng.choice(alphabet) for _ in range(rng.choice([1, 2, 3, 6, 12]))))
        elif kind < 0.6:
            at = rng.randrange(len(alphabet))
            parts.append(alphabet[at : at + rng.randrange(1, 30)])
        elif kind < 0.7:
            parts.append(rng.choice(tokens))
        elif kind < 0.75:
            parts.append(rng.choice(alphabet) * rng.choice([2, 5, 17, 60, 300] if rng.random() < 0.1 else [2, 3, 5]))
        elif kind < 0.8:
            c = rng.randrange(0x110000)
            parts.append(chr(c) if not 0xD800 <= c <= 0xDFFF else "?")
        elif kind < 0.9:
            parts.append(rng.choice(["", " ", "  ", "\n", "\n\n", " \n", "\t"]))
        else:
            parts.append(rng.choice(ALPHABETS[0].split(" ")) + " ")
    return "".join(parts)


def main(folder, out):
    os.makedirs(out, exist_ok=True)
    rng = random.Random(20240607)
    texts = ["", " ", "  ", "a", *ALPHABETS]
    while len(texts) < 1600:
        texts.append(random_text(rng))
    blob = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode() for t in texts))
    with open(os.path.join(out, "texts.z"), "wb") as f:
        f.write(struct.pack("<I", len(blob)) + zlib.compress(blob, 9))
    for name, t in tokenizers(corpus(folder)):
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        t = Tokenizer.from_file(os.path.join(out, name + ".json"))
        result = b""
        for no_special in (False, True):
            t.encode_special_tokens = no_special
            for text in texts:
                ids = t.encode(text, add_special_tokens=False).ids
                result += struct.pack("<I", len(ids)) + b"".join(struct.pack("<H", i) for i in ids)
                if not no_special:
                    decoded = t.decode(ids, skip_special_tokens=False).encode()
                    same = decoded == text.encode()
                    result += struct.pack("<I", 0xFFFFFFFF) if same else struct.pack("<I", len(decoded)) + decoded
        with open(os.path.join(out, name + ".z"), "wb") as f:
            f.write(struct.pack("<I", len(result)) + zlib.compress(result, 9))


if __name__ == "__main__":
    main(*sys.argv[1:])
