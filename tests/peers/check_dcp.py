# SPDX-License-Identifier: Apache-2.0
"""check_dcp.py DCP: PyTorch's distributed checkpoint and weft read each other's folders. Needs torch and safetensors."""
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

WANT = {
    "rows": torch.arange(15, dtype=torch.float32).reshape(5, 3),
    "blocks.0.grid": torch.arange(35, dtype=torch.bfloat16).reshape(5, 7),
    "wide": torch.arange(9, dtype=torch.float64),
    "one": torch.tensor(0, dtype=torch.float32),
}


def check(what, got):
    assert sorted(got) == sorted(WANT), f"{what}: {sorted(got)}"
    for name, want in WANT.items():
        assert got[name].dtype == want.dtype and torch.equal(got[name], want), f"{what}: {name} is {got[name]}"
    print(f"ok - {what}")


def main():
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "pieces")
        subprocess.run([sys.argv[1], "write", folder], check=True)

        got = {name: torch.full_like(want, -1) for name, want in WANT.items()}
        dcp.load(got, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
        check("HuggingFaceStorageReader loads them", got)

        metadata = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
        sizes = {name: (tuple(m.size), len(m.chunks)) for name, m in metadata.items()}
        assert sizes == {"rows": ((5, 3), 3), "blocks.0.grid": ((5, 7), 4), "wide": ((9,), 3), "one": ((), 1)}, sizes
        print("ok - it sees as many pieces as there are")

        whole = os.path.join(top, "whole")
        os.mkdir(whole)
        consolidate_safetensors_files(folder, whole, fqn_to_index_mapping={name: 1 for name in WANT})
        files = [name for name in os.listdir(whole) if name.endswith(".safetensors")]
        got = {}
        for name in files:
            got |= load_file(os.path.join(whole, name))
        check("its consolidation makes whole tensors of them", got)

        for what, path in [("what weft wrote", folder), ("the consolidated tensors", whole)]:
            subprocess.run([sys.argv[1], "check", path], check=True)
            print(f"ok - weft reads {what}")

        theirs = os.path.join(top, "theirs")
        os.mkdir(theirs)
        save_file(WANT, os.path.join(theirs, "model.safetensors"))
        subprocess.run([sys.argv[1], "check", theirs], check=True)
        print("ok - weft reads what safetensors wrote")

        theirs = os.path.join(top, "pieces of theirs")
        dcp.save(WANT, storage_writer=HuggingFaceStorageWriter(theirs, save_distributed=True), no_dist=True)
        subprocess.run([sys.argv[1], "check", theirs], check=True)
        print("ok - weft reads what HuggingFaceStorageWriter wrote")


if __name__ == "__main__":
    main()
