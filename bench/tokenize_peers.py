# SPDX-License-Identifier: Apache-2.0
"""Encoding side by side, on one core: bench/tokenize_peers.py DRIVER TOKENIZER-FOLDER TEXT [ROUNDS]. DRIVER is the program of bench/tokenize.c, the folder one
that `weft tokenize --train --pattern llama3` made. All encode the same documents of 4 kB, in turn; prints the median of each in MB per second of processor
time, and the ratios. Needs tokenizers and tiktoken. Run it under `taskset -c 0`."""
import json
import os
import statistics
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tiktoken  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

EACH = 4096


def cut(data):
    """As the driver cuts."""
    at = 0
    while at < len(data):
        end = min(at + EACH, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        yield data[at:end].decode()
        at = end


def ranks_of(path):
    with open(path, encoding="utf-8") as file:
        parsed = json.load(file)
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    letters = {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(others)}
    special = {t["content"]: t["id"] for t in parsed["added_tokens"]}
    ordered = sorted((i, t) for t, i in parsed["model"]["vocab"].items() if t not in special)
    pattern = parsed["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return pattern, {bytes(letters[c] for c in token): rank for rank, (_, token) in enumerate(ordered)}


def main():
    driver, folder, text = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    path = os.path.join(folder, "tokenizer.json")
    with open(text, "rb") as file:
        data = file.read()
    documents = list(cut(data))
    theirs = Tokenizer.from_file(path)
    pattern, ranks = ranks_of(path)
    tik = tiktoken.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    weft = subprocess.Popen([driver, path, text, str(EACH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run_weft():
        weft.stdin.write("\n")
        weft.stdin.flush()
        seconds, ids = weft.stdout.readline().split()
        return float(seconds), int(ids)

    def run_tokenizers():
        start = time.process_time()
        ids = sum(len(e.ids) for e in theirs.encode_batch_fast(documents, add_special_tokens=False))
        return time.process_time() - start, ids

    def run_tiktoken():
        start = time.process_time()
        ids = sum(len(tik.encode_ordinary(d)) for d in documents)
        return time.process_time() - start, ids

    peers = {"weft": run_weft, "tokenizers": run_tokenizers, "tiktoken": run_tiktoken}
    seconds = {name: [] for name in peers}
    for i in range(rounds + 1):  # the first warms up
        for name, peer in peers.items():
            took, ids = peer()
            seconds[name] += [took] if i else []
            print(f"{name:12} {len(data) / took / 1e6:8.2f} MB/s {ids} ids", file=sys.stderr)
    weft.stdin.close()
    weft.wait()
    rate = {name: len(data) / statistics.median(s) / 1e6 for name, s in seconds.items()}
    for name, r in rate.items():
        print(f"{name:12} {r:8.2f} MB/s, weft is {rate['weft'] / r:.2f} times as fast")


if __name__ == "__main__":
    main()
