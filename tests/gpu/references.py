# SPDX-License-Identifier: Apache-2.0
"""References that the kit carries: what one rank computes in f64 by the plain kernels where the kit
is made. So the GPU is compared with another machine, too, and not with its own processor alone."""

import array
import json
import math
import os
import struct

STEPS = 2
BLOCKS = 2


def read_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        values = array.array({"F64": "d", "F32": "f"}[t["dtype"]])
        values.frombytes(data[slice(*t["data_offsets"])])
        tensors[name] = values
    return tensors


def write_safetensors(path, tensors):
    """As f32: half the bytes, and far more digits than are compared."""
    header, data = {}, b""
    for name, values in tensors.items():
        raw = array.array("f", values).tobytes()
        header[name] = dict(dtype="F32", shape=[len(values)],
                            data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def dump(kit, ini, train, folder):
    """Losses and norms; the gradients of the first step; the parameters after the last."""
    path = train(kit, ini, folder, "--with", "dump@after:adamw", "-o", f"dump.steps=1 {STEPS + 1}", "-o",
                 f"train.steps={STEPS + 1}", "-o", "dump.what=parameters gradients")
    with open(os.path.join(path, "metrics.jsonl")) as f:
        steps = [json.loads(line) for line in f][:STEPS]
    tensors = {}
    for step, what in ((1, "gradients"), (STEPS + 1, "parameters")):
        read = read_safetensors(os.path.join(path, "dump", f"step-{step}", what + ".safetensors"))
        tensors.update({f"{what}/{name}": values for name, values in read.items()})
    tensors["loss"] = array.array("d", [m["loss"] for m in steps])
    tensors["norm"] = array.array("d", [m["grad_norm"] for m in steps])
    return tensors


def make(kit, shapes, write_ini, train):
    for shape in shapes:
        ini = write_ini(kit, "reference", "", "[cpu]\nkernels = plain\n", shape, "cpu")
        tensors = dump(kit, ini, lambda *a: train(*a, "-o", "train.dtype=f64"), "reference")
        write_safetensors(kit.path("references", shape + ".safetensors"), tensors)


def relative(a, b):
    if len(a) != len(b):
        return math.inf
    apart = math.fsum((x - y) ** 2 for x, y in zip(a, b))
    return math.sqrt(apart / (math.fsum(x * x for x in a) or 1)) if apart == apart else math.inf


def compare(kit, dtype, write_ini, train, shape, tokens):
    """Within the bounds of weft oracle (docs/oracle.md)."""
    want = read_safetensors(kit.path("references", shape + ".safetensors"))
    got = dump(kit, write_ini(kit, "carried", "bf16" if dtype == "bf16" else "", "", shape), train,
               "carried")
    e, e_a = 2.0 ** -24, 2.0 ** (-8 if dtype == "bf16" else -24)
    bound = 4 * (e_a * math.sqrt(10 * (BLOCKS + 1)) + e * math.sqrt(tokens))
    worst, parted = {}, []
    for name, values in want.items():
        kind = name.split("/")[0]
        error = relative(values, got.get(name, []))
        allowed = bound if kind == "gradients" else bound * (1 + 3 * (STEPS - 1))
        allowed *= 4 if kind == "parameters" else 1
        worst[kind] = max(worst.get(kind, 0), error)
        if not error <= allowed:
            parted.append(f"{name}: {error:.3g}, bound {allowed:.3g}")
    return worst, parted
