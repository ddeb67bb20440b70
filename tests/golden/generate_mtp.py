#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/deepseek3_mtp.safetensors: multi-token prediction as section 2.2 of DeepSeek-V3's report has it, two modules deep.

    /tmp/golden/bin/python tests/golden/generate_mtp.py      (the same environment as for generate.py, whose file format this is)

Transformers has the blocks and not the modules; what joins them, what they learn and what their losses are divided by is written here. Besides what
generate.py says there is validation, f64 [1], the loss of the model's own head, and loss/mtp1, loss/mtp2, each module's with its weight.
"""

import numpy as np
import torch
import transformers.models.deepseek_v3.modeling_deepseek_v3 as deepseek
from generate import Data, make_deepseek, number, put, randomize, same, save, split_experts, widen, yarn_rope
from torch.nn.functional import cross_entropy

DEPTH, WEIGHT, SEQ = 2, 0.3, 16


class Module(deepseek.DeepseekV3DecoderLayer):
    """A block, and before it the projection of two norms, behind it a norm for the head."""

    def __init__(self, config, layer):
        super().__init__(config, layer)
        dim = config.hidden_size
        self.enorm = deepseek.DeepseekV3RMSNorm(dim, config.rms_norm_eps)
        self.hnorm = deepseek.DeepseekV3RMSNorm(dim, config.rms_norm_eps)
        self.eh_proj = torch.nn.Linear(2 * dim, dim, bias=False)
        self.shared_head = torch.nn.Module()
        self.shared_head.norm = deepseek.DeepseekV3RMSNorm(dim, config.rms_norm_eps)

    def predict(self, hidden, embedding, **keys):
        x = self.eh_proj(torch.cat([self.enorm(embedding), self.hnorm(hidden)], -1))
        return self.shared_head.norm(self(x, **keys))


def behind(x, segments, k):
    """What is k places further on, -1 where there is nothing."""
    y = np.full_like(x, -1)
    y[:, :-k] = np.where(segments[:, :-k] == segments[:, k:], x[:, k:], -1)
    return torch.from_numpy(y)


def rename(name, tensor):
    if name.endswith("eh_proj.weight"):
        for part, x in zip(("embedding", "hidden"), tensor.chunk(2, dim=1)):
            yield name.replace("eh_proj", f"eh_proj.{part}"), x
    else:
        yield from split_experts(["gate_proj", "up_proj", "down_proj"])(name, tensor)


def head_loss(model, hidden, labels):
    return cross_entropy(model.lm_head(hidden).flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum"), int((labels >= 0).sum())


def main():
    widen()
    model, ini = make_deepseek(10, yarn_rope())
    layers = model.config.num_hidden_layers
    generator = torch.Generator().manual_seed(5)
    for k in range(DEPTH):
        module = Module(model.config, layers + k)
        module.mlp.gate.e_score_correction_bias.copy_((0.3 * torch.randn(8, generator=generator)).to(torch.float32).double() - 0.2)
        model.model.layers.append(module)
    randomize(model, generator)
    segments = np.array([0] * 7 + [1] * 2 + [2] + [3] * 6)
    data = Data(2, SEQ, 99, positions=61 * np.arange(SEQ), segments=np.stack([np.zeros(SEQ, int), segments]))
    mask, places = data.mask(), torch.from_numpy(data.positions)
    model.train()
    hidden = model.model(input_ids=torch.from_numpy(data.ids), position_ids=places, attention_mask=mask).last_hidden_state
    angles = model.model.rotary_emb(hidden, position_ids=places)
    loss_sum, tokens = head_loss(model, hidden, torch.from_numpy(data.labels))
    out = {"logits": model.lm_head(hidden).detach().numpy().astype(np.float32), "loss_sum": number(loss_sum.item()), "tokens": number(tokens)}
    loss = loss_sum / tokens
    out["validation"] = number(loss.item())
    for k in range(1, DEPTH + 1):
        ids = behind(data.ids, data.segments, k)
        embedding = model.model.embed_tokens(ids.clamp(min=0)) * (ids >= 0)[..., None]
        hidden = model.model.layers[layers + k - 1].predict(hidden, embedding, attention_mask=mask, position_ids=places, position_embeddings=angles)
        part, count = head_loss(model, hidden, behind(data.labels, data.segments, k))
        part = WEIGHT / DEPTH * part / count
        assert count < tokens
        out[f"loss/mtp{k}"] = number(part.item())
        loss = loss + part
    loss.backward()
    out["loss"] = number(loss.item())
    data.save(out)
    for key, p in model.named_parameters():
        put(out, "weight", key, p, rename)
        put(out, "gradient", key, p.grad, rename)
    for key, p in model.named_buffers():
        if key.endswith("e_score_correction_bias"):
            put(out, "state", key, p, same)
    save("deepseek3_mtp", out, ini + f"mtp = {DEPTH}\nmtp_weight = {WEIGHT}\n")


if __name__ == "__main__":
    main()
