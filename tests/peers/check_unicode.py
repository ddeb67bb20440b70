# SPDX-License-Identifier: Apache-2.0
"""Normalizers over all code points against Hugging Face's tokenizers: check_unicode.py WEFT. Each code point stands alone, between combining marks and
behind letters that it may compose with. Prints one line a check; exit code 1 if one fails. Needs tokenizers."""
import json
import os
import subprocess
import sys
import tempfile

from tokenizers import normalizers

WEFT = os.path.abspath(sys.argv[1])
POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and c != 0x0A]
NORMALIZERS = [["NFC"], ["NFD"], ["NFKC"], ["NFKD"], ["Lowercase"], ["NFKC", "Lowercase"], ["Lowercase", "NFD"]]
PLACES = ["{}", "\u0301{}\u0327", "e\u0323{}\u0302", "a{}\u0301", "{}\u0345\u0300", "\u1100{}\u11a8", "A{}A"]
LINES = 2048  # in a document; nothing joins over a line's end
failures = 0


def alphabet():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {b: chr(b) for b in kept} | {b: chr(256 + i) for i, b in enumerate(others)}


def write(path, names):
    """A tokenizer whose ids are the bytes of the normalized text."""
    letters = alphabet()
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps = [{"type": name} for name in names]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": level, "decoder": level,
                   "model": {"type": "BPE", "vocab": {letters[b]: b for b in range(256)}, "merges": []}}, file)


def ours(path, documents):
    lines = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
    done = subprocess.run([WEFT, "tokenize", "--tokenizer", path, "--json", "--format", "jsonl"], input=lines, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return [bytes(json.loads(line)).decode() for line in done.stdout.splitlines()]


def compare(path, names, place):
    global failures
    written = [place.format(c) for c in POINTS]
    documents = ["\n".join(written[at:at + LINES]) for at in range(0, len(written), LINES)]
    theirs = normalizers.Sequence([getattr(normalizers, name)() for name in names])
    wrong = []
    for number, (document, got) in enumerate(zip(documents, ours(path, documents))):
        want = theirs.normalize_str(document)
        if want != got:
            pairs = zip(want.split("\n"), got.split("\n"))
            wrong += [f"U+{ord(POINTS[number * LINES + i]):04X} {w!a} {g!a}" for i, (w, g) in enumerate(pairs) if w != g]
    failures += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} - {', '.join(names)}: {ascii(place)}", flush=True)
    if wrong:
        print(f"# {len(wrong)} differ (code point, theirs, ours): {'; '.join(wrong[:10])}")


def main():
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "t.json")
        for names in NORMALIZERS:
            write(path, names)
            for place in PLACES:
                compare(path, names, place)
    return 1 if failures else 0


sys.exit(main())
