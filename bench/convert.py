# SPDX-License-Identifier: Apache-2.0
"""convert.py FOLDER LAYERS FILES: a Hugging Face folder of a Llama with so many layers (of TinyLlama's sizes: 2048 wide, 32000 words), its tensors in
bf16, of no meaning."""
import json
import math
import os
import random
import struct
import sys

VOCABULARY, WIDTH, HIDDEN, HEADS, KV_HEADS = 32000, 2048, 5632, 32, 4
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
          "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
KV = WIDTH // HEADS * KV_HEADS
BLOCK = {"self_attn.q_proj": [WIDTH, WIDTH], "self_attn.k_proj": [KV, WIDTH], "self_attn.v_proj": [KV, WIDTH], "self_attn.o_proj": [WIDTH, WIDTH],
         "mlp.gate_proj": [HIDDEN, WIDTH], "mlp.up_proj": [HIDDEN, WIDTH], "mlp.down_proj": [WIDTH, HIDDEN], "input_layernorm": [WIDTH],
         "post_attention_layernorm": [WIDTH]}


def write(path, tensors, numbers):
    header, at = {}, 0
    for name, shape in tensors:
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, at, len(numbers)):
            file.write(numbers[: at - begin])
        os.fsync(file.fileno())


def main():
    folder, layers, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tensors = [("model.embed_tokens.weight", [VOCABULARY, WIDTH])]
    tensors += [(f"model.layers.{i}.{name}.weight", shape) for i in range(layers) for name, shape in BLOCK.items()]
    tensors += [("model.norm.weight", [WIDTH]), ("lm_head.weight", [VOCABULARY, WIDTH])]
    numbers = bytearray(random.Random(1).randbytes(1 << 24))
    numbers[1::2] = bytes(byte & 0x81 | 0x3C for byte in numbers[1::2])  # none is infinite
    os.makedirs(folder)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(CONFIG | {"num_hidden_layers": layers}, file)
    each, places = -(-len(tensors) // files), {}
    for i in range(files):
        name = "model.safetensors" if files == 1 else f"model-{i + 1:05d}-of-{files:05d}.safetensors"
        mine = tensors[i * each : (i + 1) * each]
        places |= {tensor: name for tensor, _ in mine}
        write(f"{folder}/{name}", mine, numbers)
    if files > 1:
        with open(f"{folder}/model.safetensors.index.json", "w") as file:
            json.dump({"metadata": {}, "weight_map": places}, file)


main()
