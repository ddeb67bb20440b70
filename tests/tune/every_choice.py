#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""every_choice.py WEFT INI RANKS GPU KEY=VALUE,...: what `weft tune` may choose, by `weft plan`.

Plans each combination of the values of these keys (all of tp, cp, fsdp, pp and ac are listed,
whatever they have to do) and prints "seconds bytes settings" of those that can be planned. Knows
nothing of how tune finds its choices, or which of them are one plan.
"""
import itertools
import re
import subprocess
import sys

HELPERS = ['tp', 'fsdp', 'cp', 'pp', 'ac']  # in the order in which tune lists them
UNITS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1,
         'B': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30, 'TiB': 2**40}
DEGREES = ['tp.degree', 'cp.degree', 'pp.degree', 'fsdp.replicate']


def number(text):
    value, unit = text.split()
    return float(value) * UNITS[unit]


def plan(weft, ini, ranks, gpu, settings, rank):
    args = [weft, 'plan', ini, '-n', str(ranks), '--gpu', gpu, '--rank', str(rank)]
    listed = [name for name in HELPERS if name != 'pp' or settings['pp.degree'] != '1' or 'pp.schedule' in settings]
    for name in listed:
        args += ['--with', name + '@before:adamw']
    for key, value in settings.items():
        if key.split('.')[0] in listed + ['train']:
            args += ['-o', f'{key}={value}']
    run = subprocess.run(args, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 2):
        sys.exit(f'{" ".join(args)}: exit {run.returncode}: {run.stderr}')
    return run.stdout if run.returncode == 0 else None


def measure(weft, ini, ranks, gpu, settings):
    """Seconds, and bytes of the rank of the pipeline that holds most; None: refused."""
    stages = int(settings['pp.degree'])
    seconds, most = None, 0.0
    for stage in range(stages):
        text = plan(weft, ini, ranks, gpu, settings, stage * (ranks // stages))
        if text is None:
            return None
        step = re.search(r'^predicted, .*?: step ([0-9.]+ [mun]?s)', text, re.M)
        if not step or 'at least' in step.group(0):
            return None
        seconds = seconds or number(step.group(1))
        held = [number(re.search(rf'^  {name} +([0-9.]+ [KMGT]?i?B)', text, re.M).group(1))
                for name in ('total planned', r'libraries \(estimate\)')]
        most = max(most, sum(held))
    return seconds, most


def main():
    weft, ini, ranks, gpu = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    keys = [text.split('=', 1) for text in sys.argv[5:]]
    seen = {}
    for values in itertools.product(*(v.split(',') for _, v in keys)):
        settings = dict(zip((k for k, _ in keys), values))
        degrees = 1
        for key in DEGREES:
            degrees *= int(settings[key])
        if degrees > ranks or ranks % degrees:
            continue
        degrees //= int(settings['fsdp.replicate'])
        if int(settings['train.micro_batch']) < ranks // degrees:
            continue  # some ranks would have no sample
        # Free keys that have no meaning, as the manual has it, so that nothing is planned twice. What
        # is fixed stays: a schedule that halves backwards does so in one stage, too; but where the
        # degree is fixed at 1 the plugin is not wanted.
        idle = ['pp.schedule', 'pp.virtual_stages'] if settings['pp.degree'] == '1' else []
        idle += ['ac.budget'] if settings['ac.mode'] != 'budget' else []
        for key in idle:
            if ',' in dict(keys).get(key, '') or (key[:3] == 'pp.' and dict(keys)['pp.degree'] == '1'):
                settings.pop(key, None)
        name = ' '.join(f'{k}={v}' for k, v in settings.items())
        if name in seen:
            continue
        seen[name] = measure(weft, ini, ranks, gpu, settings)
        if seen[name]:
            print('%.9g %.9g %s' % (*seen[name], name))


main()
