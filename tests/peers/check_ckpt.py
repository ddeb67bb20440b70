# SPDX-License-Identifier: Apache-2.0
"""check_ckpt.py WEFT: what PyTorch's distributed checkpoint reads in a checkpoint that weft has made on tp 2 x fsdp 2. Needs torch and safetensors."""
import glob
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageReader
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

RUN = """[weft]
plugins = llama3 text cpu local fsdp tp adamw ckpt metrics
threads = 1
dir = {top}/run
[tp]
degree = 2
[train]
steps = 3
seq_len = 16
global_batch = 4
[text]
path = {top}/text
[llama3]
dim = 48
n_layers = 2
n_heads = 4
n_kv_heads = 2
ffn_dim = 96
vocab_size = 300
"""


def values(text):
    return [float(word) for word in text.split()]


def cat(weft, folder, *names):
    return subprocess.run([weft, "ckpt", "cat", folder, *names], check=True, capture_output=True, text=True).stdout


def main():
    weft = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as top:
        with open(os.path.join(top, "text"), "w") as file:
            file.writelines(f"Sentence {i} of a text.\n" for i in range(400))
        with open(os.path.join(top, "run.ini"), "w") as file:
            file.write(RUN.format(top=top))
        done = subprocess.run([weft, "train", os.path.join(top, "run.ini"), "-n", "4"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        folder = os.path.join(top, "run/ckpt/step-3")
        files = [entry["name"] for entry in json.load(open(os.path.join(folder, "manifest.json")))["files"] if entry["name"].startswith("model-")]
        assert len(files) == 4, files

        metadata = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
        got = {name: torch.full(m.size, float("nan"), dtype=m.properties.dtype) for name, m in metadata.items()}
        dcp.load(got, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
        print(f"ok - HuggingFaceStorageReader loads {len(got)} tensors of 4 ranks")
        assert any(len(m.chunks) == 4 for m in metadata.values())

        listed = {line.split()[0] for line in cat(weft, folder).splitlines() if line.split()}
        parameters = {name for name in listed if name in got}
        assert parameters == set(got), parameters ^ set(got)
        for name, tensor in got.items():
            want = torch.tensor(values(cat(weft, folder, name)), dtype=torch.float64).float()
            assert want.numel() == tensor.numel() and torch.equal(want, tensor.flatten()), name
        print("ok - they are what weft ckpt cat prints, to the bit")

        whole = os.path.join(top, "whole")
        os.mkdir(whole)
        consolidate_safetensors_files(folder, whole, fqn_to_index_mapping={name: 1 for name in got})
        theirs = {}
        for name in glob.glob(os.path.join(whole, "*.safetensors")):
            theirs |= load_file(name)
        assert sorted(theirs) == sorted(got) and all(torch.equal(theirs[name], got[name]) for name in got)
        print("ok - its consolidation makes the same whole tensors of them")


if __name__ == "__main__":
    main()
