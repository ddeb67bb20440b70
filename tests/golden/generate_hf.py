#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders tests/golden/hf/NAME: small random models as Hugging Face Transformers saves them, and the logits that it computes.

    /tmp/golden/bin/python tests/golden/generate_hf.py      (the same environment as for generate.py)

Besides what save_pretrained writes there is expected.safetensors: ids i32 [samples, seq] and logits [samples, seq, vocab], computed in f64.
"""

import os
import shutil

import numpy as np
import torch
from generate import HERE, VOCAB, randomize, scaled_rope, widen
from safetensors.numpy import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

IDS = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2}


def llama(**keys):
    return LlamaForCausalLM(LlamaConfig(**IDS | dict(hidden_size=16, intermediate_size=26, num_hidden_layers=2, num_attention_heads=4,
                                                     max_position_embeddings=64, attn_implementation="eager") | keys))


def write(name, model, **keys):
    folder = os.path.join(HERE, "hf", name)
    shutil.rmtree(folder, ignore_errors=True)
    randomize(model, torch.Generator().manual_seed(len(name)))
    ids = np.random.default_rng(3).integers(0, VOCAB, (2, 12))
    logits = model.eval()(input_ids=torch.from_numpy(ids)).logits
    assert logits.dtype == torch.float64
    model.float = lambda: torch.nn.Module.to(model, torch.float32)
    model.float().save_pretrained(folder, **keys)
    save_file({"ids": ids.astype(np.int32), "logits": logits.detach().numpy().astype(np.float32)}, os.path.join(folder, "expected.safetensors"))
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)


def main():
    widen()
    # A theta that is neither Llama 2's nor Llama 3's: who reads the wrong key notices.
    write("llama", llama(num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 77.0}),
          max_shard_size="8KB")
    write("llama_tied", llama(num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=scaled_rope() | {"rope_theta": 100.0, "original_max_position_embeddings": 16}))
    write("gpt2", GPT2LMHeadModel(GPT2Config(**IDS, n_embd=16, n_layer=2, n_head=4, n_inner=44, n_positions=20, attn_implementation="eager")))


if __name__ == "__main__":
    main()
