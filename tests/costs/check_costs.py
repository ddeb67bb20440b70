#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_costs.py CSV: weft's predictions held against published runs.

Each row is planned as a run of weft, for its GPU (share/gpus) and with what its framework takes
(share/frameworks, plugin costs). A few factors on the numbers of these files are fitted under
priors, five times, each time without a fifth of the rows, which is then predicted. --write prints
what a fit of all rows makes of the files' numbers.
"""
import argparse
import collections
import csv
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.environ.get('WEFT_TREE') or os.path.join(HERE, '..', '..')

GPUS = {
    'A100-80': ('a100', 'a100', 80),
    'A100-40': ('a100', 'a100 bandwidth=1.555e12 memory=40Gi', 40),
    'H100-80': ('h100', 'h100', 80),
    'H100-96-500W': ('h100-500w', 'h100-500w', 96),
}
FRAMEWORKS = {  # of a source
    'vtrain': 'megatron-deepspeed',
    'korthikanti': 'megatron-deepspeed',
    'megatron-sc21': 'megatron-deepspeed',
    'zero-bubble': 'megatron-deepspeed',
    'hagemann': 'gpt-neox-like',
    'mosaicml': 'llm-foundry',
    'nanotron': 'nanotron',
    'torchtitan': 'torchtitan',
    'llmq': 'llmq',
}
# What columns mean for the plugin costs: tags, and keys that stand over the framework's. Unfused
# attention reads and writes every score: once as softmax and mask in one kernel, several times in
# f32 as kernels of their own. An unfused norm is some seven kernels in f32 for one in 16 bits.
KERNELS = {
    'fused_softmax': {'scores': 11},
    'torch': {'scores': 38},
    'flash1': {'attention': 0.65},  # FlashAttention-2's paper: 0.5 to 0.7 of that
    'cudnn': {'attention': 1.35},  # cuDNN's own figures
    '': {'scores': 11},  # before flash attention was there
}
UNFUSED_NORM = {'norms': 14}
COMPILED = {'enqueue': 0.5}  # fewer kernels, fused about as weft's are

# What is fitted: tag and number, and how unsure it is (sd of its logarithm).
FACTORS = [
    ('a100.product', 0.06),
    ('h100.product', 0.06),
    ('h100-500w.product', 0.08),
    ('all.product8', 0.1),
    ('all.k_half', 1.0),
    ('all.memory_reached', 0.08),
    ('a100.attention', 0.25),
    ('hopper.attention', 0.25),
    ('all.attention_edge', 0.5),
    ('all.launch', 0.4),
    ('all.link_reached', 0.12),
    ('all.call', 0.7),
    ('all.hop', 0.7),
    ('all.half_bytes', 1.0),
    ('all.net_reached', 0.2),
    ('all.net_call', 0.7),
    ('all.costs.elementwise', 0.2),
    ('all.costs.loss', 0.3),
    ('all.costs.updates', 0.3),
    ('all.costs.gradients', 0.3),
    ('unfused_norm.costs.norms', 0.3),
    ('torch.costs.scores', 0.3),
    ('fused_softmax.costs.scores', 0.3),
    ('all.costs.score_products', 0.3),
    ('all.costs.step', 0.7),
    ('all.costs.beside', 0.3),
    ('llm-foundry.costs.attention', 0.3),
    ('megatron-deepspeed.costs.micro_batch', 0.7),
    ('gpt-neox-like.costs.micro_batch', 0.7),
] + [('%s.costs.enqueue' % f, 0.5) for f in sorted(set(FRAMEWORKS.values()))] + [
    ('%s.costs.products' % f, 0.05) for f in sorted(set(FRAMEWORKS.values())) if f != 'megatron-deepspeed'
]
SPREAD = 0.08  # of a row, in its logarithm
DELTA = 0.05


def number(row, key, default=1):
    return int(float(row[key])) if row.get(key) else default


def framework_keys(name):
    keys = {}
    for line in open(os.path.join(TREE, 'share', 'frameworks', name + '.ini')):
        line = line.split(';')[0].strip()
        if '=' in line:
            key, value = line.split('=')
            keys[key.strip()] = float(value)
    return keys


class Run:
    """A row as a run of weft."""

    def __init__(self, row):
        self.row, self.id, self.source = row, row['id'], row['source']
        self.seconds = float(row['step_s']) if row['step_s'] else None
        self.gpus = number(row, 'gpus')
        self.layers, self.pp, self.turns = number(row, 'layers'), number(row, 'pp'), number(row, 'vpp')
        self.tp, self.dp = number(row, 'tp'), number(row, 'dp')
        self.batch, self.micro = number(row, 'global_batch'), number(row, 'micro_batch')
        self.many = self.batch // (self.dp * self.micro)
        self.group = (row['set'], row['hidden'], row['layers'], row['gpus'], row['seq'], row['global_batch'])
        self.framework = FRAMEWORKS.get(self.source)
        if self.source not in FRAMEWORKS:
            self.framework = row.get('framework') or 'megatron-deepspeed'
        if row['schedule'] != 'interleaved_1f1b':
            self.turns = 1

    def why_not(self):
        row = self.row
        if row['gpu'] not in GPUS:
            return 'its GPU is not known'
        if number(row, 'cp') != 1:
            return 'cp'
        if row['arch'] not in ('gpt', 'mpt', 'llama'):
            return 'its model'
        if not os.path.exists(os.path.join(TREE, 'share', 'frameworks', self.framework + '.ini')):
            return 'its framework'
        return None

    def costs(self):
        row, tags = self.row, [self.framework]
        keys = framework_keys(self.framework)
        kernel = row['attention_kernel']
        if kernel in KERNELS:
            for key, value in KERNELS[kernel].items():
                keys[key] = value * (keys.get(key, 1) if key == 'attention' else 1)
            tags.append('fused_softmax' if kernel == '' else kernel)
        if row['fused_norm'] == '0' and row['arch'] == 'llama' and row['compile'] != '1':
            keys.update(UNFUSED_NORM)
            tags.append('unfused_norm')
        if row['compile'] == '1':
            for key, value in COMPILED.items():
                keys[key] = keys.get(key, 1) * value
        return keys, tags

    def edits(self, layers, many):
        row, model = self.row, 'llama3' if self.row['arch'] == 'llama' else 'gpt2'
        tag, gpu, _ = GPUS[row['gpu']]
        keys, tags = self.costs()
        pad = 128 * self.tp if model == 'gpt2' else self.tp
        vocab = -(-number(row, 'vocab', 50304) // pad) * pad
        out = ['+%s@first' % model, 'gpu.gpu=%s' % gpu,
               'train.seq_len=%s' % row['seq'], 'train.micro_batch=%d' % (self.micro * self.dp),
               'train.global_batch=%d' % (self.micro * self.dp * many),
               '%s.dim=%s' % (model, row['hidden']), '%s.n_layers=%d' % (model, layers),
               '%s.n_heads=%s' % (model, row['heads']), '%s.ffn_dim=%s' % (model, row['ffn']),
               '%s.vocab_size=%d' % (model, vocab)]
        if model == 'llama3':
            out += ['llama3.n_kv_heads=%s' % (row['kv_heads'] or row['heads'])]
            out += ['llama3.tied=yes'] if row['tied_embeddings'] == '1' else []
        else:
            out += ['gpt2.n_positions=%s' % row['seq'], 'gpt2.tied=%s' % ('yes' if row['tied_embeddings'] == '1' else 'no')]
        out += ['costs.%s=%g' % item for item in keys.items()]
        if 'fp8' in row['dtype']:
            out += ['+float8@after:bf16']
        if self.tp > 1:
            out += ['+tp@before:adamw', 'tp.degree=%d' % self.tp,
                    'tp.sequence_parallel=%s' % ('yes' if row['seq_parallel'] == '1' else 'no')]
        if self.dp > 1:
            out += ['+fsdp@before:adamw', 'fsdp.zero=%d' % number(row, 'zero_stage', 0),
                    'fsdp.replicate=%d' % number(row, 'fsdp_replicate', 1)]
        if self.pp > 1:
            names = {'zb1p': 'zb_h1', 'zb2p': 'zb_h2', 'interleaved_1f1b': 'interleaved', '': '1f1b'}
            out += ['+pp@before:adamw', 'pp.degree=%d' % self.pp,
                    'pp.schedule=%s' % names.get(row['schedule'], row['schedule']),
                    'pp.virtual_stages=%d' % self.turns]
            stages = self.pp * self.turns
            if layers % stages == 0:  # as they cut: by layers, wherever the head is
                out += ['pp.layers_per_stage=%d' % (layers // stages)]
            elif (layers + 2) % stages == 0 and (layers + 2) // stages > 1:  # embedding and head count
                each = (layers + 2) // stages
                out += ['pp.split=' + ' '.join(str(each * i - 1) for i in range(1, stages))]
        recompute = row['recompute']
        if recompute == 'full' or recompute.startswith('every_n') or recompute == 'selective_op':
            out += ['+ac@before:adamw', 'ac.mode=%s' % {'full': 'full', 'selective_op': 'op'}.get(recompute, 'every')]
        tags += [tag] + (['hopper'] if tag.startswith('h') else [])
        return tags, out

    def parts(self, whole):
        """Runs of fewer blocks and micro-batches, whose seconds make the row's in a straight line."""
        stages = self.pp * self.turns
        layers = [(self.layers, 1.0)]
        if not whole and self.layers % stages == 0 and self.layers > 2 * stages:
            times = (self.layers - stages) / stages
            layers = [(stages, 1 - times), (2 * stages, times)]
        first = 2 * self.pp
        many = [(self.many, 1.0)]
        if not whole and self.many > first + self.pp:
            times = (self.many - first) / self.pp
            many = [(first, 1 - times), (first + self.pp, times)]
        return [(n, m, a * b) for n, a in layers for m, b in many]


def predict(lines, vectors, program, jobs):
    """Of each line bytes, and seconds by each vector; None and a reason if it is refused."""
    out = {}
    with tempfile.TemporaryDirectory() as work:
        ini, path = os.path.join(work, 'run.ini'), os.path.join(work, 'vectors')
        open(ini, 'w').write('[weft]\nplugins = text gpu costs bf16 adamw\n[train]\nsteps = 1\n[text]\npath = none.txt\n')
        open(path, 'w').write(''.join(v + '\n' for v in vectors))
        children = []
        for j in range(jobs):
            text = os.path.join(work, 'runs%d' % j)
            open(text, 'w').write(''.join(lines[j::jobs]))
            children.append(subprocess.Popen([program, ini, path], stdin=open(text), stdout=subprocess.PIPE, text=True))
        for child in children:
            for line in child.stdout:
                words = line.rstrip('\n').split('\t')
                out[words[0]] = ((None, words[2]) if words[1] == 'refused' else
                                 (float(words[1]), [float(w) for w in words[2:]]))
            if child.wait() != 0:
                sys.exit('%s failed' % program)
    return out


def evaluate(runs, vectors, args):
    """Of each run (bytes, seconds by vector), or (None, reason)."""
    wanted, lines = {}, []
    for run in runs:
        run.made = []
        for layers, many, weight in run.parts(args.whole):
            tags, edits = run.edits(layers, many)
            key = '\t'.join([','.join(tags), str(run.gpus)] + edits)
            if key not in wanted:
                wanted[key] = str(len(wanted))
                lines.append('%s\t%s\n' % (wanted[key], key))
            run.made.append((wanted[key], weight))
    print('# %d plans for %d rows' % (len(lines), len(runs)), file=sys.stderr)
    found = predict(lines, vectors, args.predict, args.jobs)
    out = {}
    for run in runs:
        bad = [found[name][1] for name, _ in run.made if found[name][0] is None]
        if bad:
            out[run.id] = (None, bad[0])
            continue
        size = sum(found[name][0] * w for name, w in run.made)
        out[run.id] = (size, [sum(found[name][1][v] * w for name, w in run.made) for v in range(len(vectors))])
    return out


# ---- the fit ----

def solve(a, b):
    n = len(b)
    a = [row[:] + [b[i]] for i, row in enumerate(a)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[p] = a[p], a[i]
        for k in range(i + 1, n):
            f = a[k][i] / a[i][i]
            if f:
                for j in range(i, n + 1):
                    a[k][j] -= f * a[i][j]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (a[i][n] - sum(a[i][j] * x[j] for j in range(i + 1, n))) / a[i][i]
    return x


def weights(runs):
    """No source, and no sweep of one, counts more than twenty rows."""
    key = [r.row['set'] if r.source == 'hagemann' else r.source for r in runs]
    count = collections.Counter(key)
    return [min(1.0, 20.0 / count[k]) for k in key]


def fit(runs, base, slopes, theta):
    """Least squares of log seconds, outliers held down, under priors, in the line around theta."""
    w, n = weights(runs), len(FACTORS)
    x = theta[:]
    for _ in range(12):
        a = [[0.0] * n for _ in range(n)]
        b = [0.0] * n
        for j, (_, sd) in enumerate(FACTORS):
            a[j][j] = 1 / sd ** 2
        for run, weight in zip(runs, w):
            g = slopes[run.id]
            at = [(j, s) for j, s in enumerate(g) if s]
            miss = math.log(run.seconds) - base[run.id]
            left = miss - sum(s * (x[j] - theta[j]) for j, s in at)
            weight *= min(1.0, 0.2 / max(abs(left), 1e-9)) / SPREAD ** 2
            target = miss + sum(s * theta[j] for j, s in at)
            for j, s in at:
                b[j] += weight * s * target
                for k, t in at:
                    a[j][k] += weight * s * t
        x = solve(a, b)
        x = [max(-3 * sd, min(3 * sd, v)) for v, (_, sd) in zip(x, FACTORS)]
    return x


def sample(runs, most):
    """Of a source no more than so many: a fit of a part says as much, for they weigh no more."""
    count, out = collections.Counter(), []
    for run in runs:
        count[run.source] += 1
        if count[run.source] <= most:
            out.append(run)
    return out


def vector(theta):
    return ' '.join('%s*%.9g' % (name, math.exp(t)) for (name, _), t in zip(FACTORS, theta) if t)


def linearise(runs, theta, args):
    vectors = [vector(theta)]
    for j in range(len(FACTORS)):
        vectors.append(vector([t + (DELTA if i == j else 0) for i, t in enumerate(theta)]))
    found = evaluate(runs, vectors, args)
    base, slopes = {}, {}
    for run in runs:
        size, seconds = found[run.id]
        if size is None or min(seconds) <= 0:
            continue
        base[run.id] = math.log(seconds[0])
        slopes[run.id] = [(math.log(s) - base[run.id]) / DELTA for s in seconds[1:]]
    return base, slopes


# ---- what is printed ----

def ranks(xs):
    order, out = sorted(range(len(xs)), key=lambda i: xs[i]), [0.0] * len(xs)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and xs[order[j + 1]] == xs[order[i]]:
            j += 1
        for k in range(i, j + 1):
            out[order[k]] = (i + j) / 2
        i = j + 1
    return out


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    ma, mb = statistics.fmean(a), statistics.fmean(b)
    va, vb = sum((x - ma) ** 2 for x in a), sum((x - mb) ** 2 for x in b)
    return sum((x - ma) * (y - mb) for x, y in zip(a, b)) / math.sqrt(va * vb) if va and vb else 0.0


def quantile(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(q * len(xs)))] if xs else 0.0


def report(runs, predicted):
    ratio = {r.id: predicted[r.id] / r.seconds for r in runs}
    off = [abs(v - 1) for v in ratio.values()]
    print('rows predicted: %d; median error %.1f %%, 80 %% within %.1f %%, 90 %% within %.1f %%; signed median %+.1f %%' % (
        len(runs), 100 * statistics.median(off), 100 * quantile(off, 0.8), 100 * quantile(off, 0.9),
        100 * (statistics.median(ratio.values()) - 1)))
    for source in sorted({r.source for r in runs}):
        mine = [ratio[r.id] for r in runs if r.source == source]
        print('  %-14s %5d rows: median error %5.1f %%, mean %5.1f %%, 90 %% within %5.1f %%, signed median %+5.1f %%' % (
            source, len(mine), 100 * statistics.median(abs(v - 1) for v in mine), 100 * statistics.fmean(abs(v - 1) for v in mine),
            100 * quantile([abs(v - 1) for v in mine], 0.9), 100 * (statistics.median(mine) - 1)))
    groups = collections.defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    rho, regret = [], []
    for group in groups.values():
        if len(group) < 4:
            continue
        p, t = [predicted[r.id] for r in group], [r.seconds for r in group]
        rho.append(spearman(p, t))
        regret.append(t[min(range(len(p)), key=lambda i: p[i])] / min(t) - 1)
    if rho:
        print('groups of at least four layouts: %d; rank correlation: median %.3f, lowest %.2f; regret of the pick: median %.1f %%, 90 %% within %.1f %%, most %.1f %%' % (
            len(rho), statistics.median(rho), min(rho), 100 * statistics.median(regret), 100 * quantile(regret, 0.9), 100 * max(regret)))
    print('all rows by tokens/s a GPU: rank correlation %.3f' % spearman(
        [r.batch * int(r.row['seq']) / r.gpus / predicted[r.id] for r in runs],
        [r.batch * int(r.row['seq']) / r.gpus / r.seconds for r in runs]))


def report_memory(runs, sizes):
    """Does weft's own plan fit where the framework's run did?"""
    for name, fused in (('fused', True), ('unfused', False)):
        some = [r for r in runs if r.row['oom'] in ('0', '1') and r.id in sizes and
                (r.row['attention_kernel'] not in ('torch', 'fused_softmax', '')) == fused]
        bad = [r for r in some if r.row['oom'] == '1']
        good = [r for r in some if r.row['oom'] == '0']
        room = lambda r: (GPUS[r.row['gpu']][2] - 1) * 2 ** 30
        print('memory, %s attention: %d of %d runs that had none are said to fit, %d of %d that ran are refused' % (
            name, sum(sizes[r.id] <= room(r) for r in bad), len(bad), sum(sizes[r.id] > room(r) for r in good), len(good)))


def print_numbers(theta):
    for (name, sd), t in zip(FACTORS, theta):
        print('  %-36s times %.3f (prior: within %.2f)' % (name, math.exp(t), math.exp(sd)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('csv')
    p.add_argument('--predict', default=os.environ.get('WEFT_PREDICT', 'tests/costs/predict'))
    p.add_argument('--jobs', type=int, default=1)
    p.add_argument('--folds', type=int, default=5)
    p.add_argument('--rounds', type=int, default=2)
    p.add_argument('--most', type=int, default=240, help='rows of a source that are fitted')
    p.add_argument('--write', action='store_true')
    p.add_argument('--no-fit', action='store_true', help='by the numbers of the files as they are')
    p.add_argument('--every', type=int, default=1, help='only one row in so many')
    p.add_argument('--whole', action='store_true', help='plan rows as they are, and not by parts')
    p.add_argument('--dump')
    args = p.parse_args()
    rows = [r for r in csv.DictReader(open(args.csv)) if r['check'] == 'ok' and (r['step_s'] or r['oom'] == '1')]
    rows = rows[::args.every]
    runs = [Run(r) for r in rows]
    left_out = collections.Counter(r.why_not() for r in runs if r.why_not())
    runs = [r for r in runs if not r.why_not()]
    theta = [0.0] * len(FACTORS)
    timed = [r for r in runs if r.seconds]
    sizes = {}
    if args.no_fit:
        found = evaluate(runs, [''], args)
        refused = {i: v[1] for i, v in found.items() if v[0] is None}
        timed = [r for r in timed if r.id not in refused]
        sizes = {i: v[0] for i, v in found.items() if v[0] is not None}
        predicted = {r.id: found[r.id][1][0] for r in timed}
    else:
        random.seed(3)
        shuffled = timed[:]
        random.shuffle(shuffled)
        fold = {r.id: k % args.folds for k, r in enumerate(shuffled)}
        some = sample(shuffled, args.most)
        for _ in range(args.rounds):
            base, slopes = linearise(some, theta, args)
            some = [r for r in some if r.id in base]
            if not some:
                sys.exit('none of %d rows that were to be fitted could be planned; with --no-fit it says why' % (
                    min(len(shuffled), args.most)))
            at, theta = theta, fit(some, base, slopes, theta)
        predicted, refused = {}, {}
        for k in range(args.folds):
            own = fit([r for r in some if fold[r.id] != k], base, slopes, at)
            found = evaluate([r for r in runs if fold.get(r.id, 0) == k], [vector(own)], args)
            for i, (size, seconds) in found.items():
                if size is None:
                    refused[i] = seconds
                else:
                    predicted[i] = seconds[0]
                    sizes[i] = size
        timed = [r for r in timed if r.id in predicted]
    for why, n in left_out.items():
        print('not covered: %d rows: %s' % (n, why))
    for why, n in collections.Counter(re.sub(r'[0-9]+', 'N', w)[:150] for w in refused.values()).items():
        print('not covered: %d rows, refused: %s' % (n, why))
    print('coverage: %d of %d rows' % (len(runs) - len(refused), len(rows)))
    if not timed:
        sys.exit('no row is left whose time could be compared')
    report(timed, predicted)
    report_memory(runs, sizes)
    if args.write:
        print_numbers(theta)
    if args.dump:
        with open(args.dump, 'w') as f:
            for r in timed:
                f.write('%s %.6g %.6g %.3f\n' % (r.id, r.seconds, predicted[r.id], predicted[r.id] / r.seconds))


if __name__ == '__main__':
    main()
