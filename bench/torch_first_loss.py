#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_first_loss.py FOLDER DUMP: the loss of a Hugging Face folder's model, in f32, of the tokens that the plugin dump
has written. bench/peer compares it with weft's, from the same weights."""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

folder, dump = sys.argv[1:]
values = load_file(dump)
ids, labels = (next(v for k, v in values.items() if k.startswith(name)).long() for name in ("ids", "labels"))
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
with torch.no_grad():
    logits = model(input_ids=ids).logits
print(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1).item())
