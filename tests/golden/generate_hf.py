#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders tests/golden/hf/NAME: small random models as Hugging Face Transformers saves them, and the logits that it computes.

    /tmp/golden/bin/python tests/golden/generate_hf.py [NAME...]      (the same environment as for generate.py)

Besides what save_pretrained writes there is expected.safetensors: ids i32 [samples, seq] and logits [samples, seq, vocab], computed in f64.
"""

import os
import shutil
import sys

import numpy as np
import torch
from generate import HERE, VOCAB, randomize, scaled_rope, widen, yarn_rope
from safetensors.numpy import save_file
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM)

IDS = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2}


def llama(**keys):
    return LlamaForCausalLM(LlamaConfig(**IDS | dict(hidden_size=16, intermediate_size=26, num_hidden_layers=2, num_attention_heads=4,
                                                     max_position_embeddings=64, attn_implementation="eager") | keys))


def decoder(Config, Model, **keys):
    """head_dim is not hidden_size / num_attention_heads; experts are few, and a token has two of them."""
    return Model(Config(**IDS | dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                     max_position_embeddings=64, attn_implementation="eager", experts_implementation="eager",
                                     rope_parameters={"rope_type": "default", "rope_theta": 77.0}) | keys))


def deepseek(**keys):
    """Biases that choose others than the scores do."""
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**IDS | dict(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
        intermediate_size=26, moe_intermediate_size=10, n_routed_experts=6, num_experts_per_tok=2, first_k_dense_replace=1, max_position_embeddings=64,
        rms_norm_eps=1e-3, attn_implementation="eager", experts_implementation="eager") | keys))
    generator = torch.Generator().manual_seed(1)
    for layer in model.model.layers[1:]:
        layer.mlp.gate.e_score_correction_bias.copy_((0.3 * torch.randn(6, generator=generator)).to(torch.float32).double() - 0.2)
    return model


def write(name, model, **keys):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
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
    write("qwen3", decoder(Qwen3Config, Qwen3ForCausalLM, intermediate_size=26, rms_norm_eps=1e-3))
    experts = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=10, intermediate_size=26)
    # The weights of experts norm to 1 in one and not in the other, whose files have them together.
    write("qwen3_moe", decoder(Qwen3MoeConfig, Qwen3MoeForCausalLM, norm_topk_prob=True, **experts))
    write("qwen3_moe_stacked", decoder(Qwen3MoeConfig, Qwen3MoeForCausalLM, norm_topk_prob=False, **experts), save_original_format=False)
    write("mixtral", decoder(MixtralConfig, MixtralForCausalLM, num_local_experts=4, num_experts_per_tok=2, intermediate_size=10), max_shard_size="8KB")
    write("mixtral_stacked", decoder(MixtralConfig, MixtralForCausalLM, num_local_experts=4, num_experts_per_tok=2, intermediate_size=10),
          save_original_format=False)
    write("deepseek3", deepseek(q_lora_rank=10, n_group=3, topk_group=2, n_shared_experts=2, routed_scaling_factor=1.5,
                                rope_parameters=yarn_rope() | {"original_max_position_embeddings": 16}), max_shard_size="8KB")
    write("deepseek3_stacked", deepseek(q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=1, norm_topk_prob=False,
                                        rope_parameters={"rope_type": "default", "rope_theta": 77.0}), save_original_format=False)


if __name__ == "__main__":
    main()
