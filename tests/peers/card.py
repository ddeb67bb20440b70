# SPDX-License-Identifier: Apache-2.0
"""The page of what was compared with others, which has a part for each of them (docs/verified.md)."""
import platform
import subprocess

import torch

HEAD = "# What was compared with "


def write(page, weft, script, peer, version, rest, cards):
    """The peer's part is written anew, behind those that are there if it has none; others stay."""
    is_weft = subprocess.run([weft, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    with open(page) as f:
        top, *parts = f.read().split("\n" + HEAD)
    parts = {part.split("\n")[0]: part for part in parts}
    parts[peer] = (f"{peer}\n\nWritten by `tests/peers/{script} build/weft docs/verified.md`, which fails where anything below does not hold.\n\n"
                   f"{is_weft}; {peer} {version}, PyTorch {torch.__version__}, Python {platform.python_version()}, on CPUs{rest}.\n" + "".join(cards))
    with open(page, "w") as f:
        f.write(("\n" + HEAD).join([top, *parts.values()]))
