#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernels' machine code does, against what kernels/promises says of them.

usage: sass.py PROMISES CUBIN...        prints what is broken, a line each
       sass.py --count CUBIN            prints how often each kernel does what

The encoding of instructions is not documented; it has been the same since compute capability 7.0 in
what is read here: 16 bytes each, the operation in the lowest 12 bits, the width of an access in
bits 73 to 75. For compute capability 9.0 the counts of all kernels were compared with those of
NVIDIA's cuobjdump 13.1, and are the same."""

import collections
import struct
import sys

WIDTHS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
# The lower nine bits are the operation, the upper three where its operands are.
OPERATIONS = {0x181: "LDG", 0x186: "STG", 0x180: "LD", 0x185: "ST", 0x184: "LDS", 0x188: "STS",
              0x183: "LDL", 0x187: "STL", 0x1ae: "LDGSTS", 0x03b: "LDSM", 0x03c: "HMMA"}


def text_at(table, at):
    return table[at:table.index(b"\0", at)].decode()


def sections(elf):
    """[(name, contents)] of a 64-bit ELF file."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3a)
    heads = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    names = elf[heads[names][4]:]
    return [(text_at(names, name), elf[at:at + length]) for name, _, _, _, at, length in heads]


def kernels(path):
    """{kernel: how often each operation, as LDG.128} of a cubin."""
    with open(path, "rb") as f:
        elf = f.read()
    if elf[:4] != b"\x7fELF":
        raise SystemExit(f"{path}: not a cubin")
    found = {}
    for name, code in sections(elf):
        if not name.startswith(".text.weft_"):
            continue
        count = found.setdefault(name[len(".text.weft_"):], collections.Counter())
        for low, high in struct.iter_unpack("<QQ", code):
            operation = OPERATIONS.get(low & 0x1ff)
            if not operation:
                continue
            if operation not in ("LDSM", "HMMA"):
                operation += f".{WIDTHS.get(high >> 9 & 7, 0)}"
            count[operation] += 1
    return found


def promises(path):
    """{kernel: its words}"""
    with open(path) as f:
        lines = [line.split("#")[0].split() for line in f]
    return {line[0]: line[1:] for line in lines if line}


# nvcc does not always see that an address is one of the GPU's memory; LD and ST go there, too.
PROMISES = {
    "reads": (("LDG.128", "LD.128"), "reads 16 bytes of the GPU's memory at once"),
    "writes": (("STG.128", "ST.128"), "writes 16 bytes of the GPU's memory at once"),
    "stages": (("STS.128",), "writes 16 bytes of shared memory at once"),
    "copies": (("LDGSTS.128",), "copies 16 bytes at once to shared memory"),
    "ldmatrix": (("LDSM",), "reads matrices from shared memory"),
    "mma": (("HMMA",), "multiplies by matrix instructions"),
}


def broken(words, count):
    for word in words:
        if word in PROMISES:
            operations, what = PROMISES[word]
            if not any(count[o] for o in operations):
                yield f"no longer {what}"
        elif word != "local":
            yield f"promises has a word that nobody knows, '{word}'"
    if "local" not in words and any(k.startswith(("LDL.", "STL.")) for k in count):
        yield "uses local memory, which promises does not allow"


def main(args):
    if len(args) == 2 and args[0] == "--count":
        for name, count in sorted(kernels(args[1]).items()):
            print(name, *(f"{k}={n}" for k, n in sorted(count.items())))
        return 0
    if len(args) < 2:
        sys.stderr.write(__doc__)
        return 2
    promised, seen, bad = promises(args[0]), set(), 0
    for path in args[1:]:
        for name, count in kernels(path).items():
            seen.add(name)
            complaints = (broken(promised[name], count) if name in promised
                          else ["is not in promises"])
            for complaint in complaints:
                print(f"{path.rsplit('/', 1)[-1]}: {name}: {complaint}")
                bad = 1
    for name in sorted(set(promised) - seen):
        print(f"{name} is in promises and nowhere else")
        bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
