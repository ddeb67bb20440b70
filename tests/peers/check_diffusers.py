# SPDX-License-Identifier: Apache-2.0
"""check_diffusers.py WEFT [PAGE | --golden FOLDER]: diffusers and weft compute the same from the same folder, whichever of the two wrote it.

Needs torch, diffusers and safetensors. PAGE: what was compared and found is written behind what stands there (docs/verified.md), in place of an
earlier card. --golden: writes the small folder of tests/golden/hf/flux with what diffusers computes from it, and compares nothing."""
import glob
import math
import os
import re
import subprocess
import sys
import tempfile

import diffusers
from diffusers import FluxTransformer2DModel
from safetensors.torch import load_file, save_file
import torch

import card

WEFT = os.path.abspath(sys.argv[1])
SAMPLES, CHANNELS, HEIGHT, WIDTH, TEXT, T5, CLIP = 3, 4, 8, 6, 6, 10, 5
MODELS = {
    "guidance": dict(num_attention_heads=2, attention_head_dim=16, axes_dims_rope=(4, 8, 4), guidance_embeds=True),
    "none": dict(num_attention_heads=4, attention_head_dim=8, axes_dims_rope=(4, 2, 2)),
}
GUIDANCE = 2.5


def waves(timesteps, embedding_dim, *rest, **more):
    """diffusers' own in f64: in f32, as there, angles of up to 1,000 are off by 3e-5, which would hide smaller mistakes. (cos, sin)"""
    assert more.get("flip_sin_to_cos") and more.get("downscale_freq_shift") == 0 and not rest
    w = torch.exp(-math.log(10000) * torch.arange(embedding_dim // 2, dtype=torch.float64) / (embedding_dim // 2))
    a = timesteps.double()[:, None] * w
    return torch.cat([a.cos(), a.sin()], 1)


def run(*words):
    done = subprocess.run([WEFT, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"weft {' '.join(words)}: {done.stderr}"
    return done.stdout


def make(sizes, doubles=2, singles=3):
    """No weight is zero, so that everything has a say: the two halves of norm_out differ."""
    torch.manual_seed(1)
    model = FluxTransformer2DModel(patch_size=1, in_channels=4 * CHANNELS, num_layers=doubles, num_single_layers=singles, joint_attention_dim=T5,
                                   pooled_projection_dim=CLIP, **sizes)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.15 + (1 if re.search(r"norm_(added_)?[qk]\.weight", name) else 0))
    return model


def make_data(folder="."):
    torch.manual_seed(2)
    data = {"latents": torch.randn(SAMPLES, CHANNELS, HEIGHT, WIDTH), "t5": torch.randn(SAMPLES, TEXT, T5), "clip": torch.randn(SAMPLES, CLIP),
            "noise": torch.randn(SAMPLES, CHANNELS, HEIGHT, WIDTH), "time": torch.tensor([0.1, 0.5, 0.83])}
    save_file(data, f"{folder}/data.safetensors")
    return data


def pack(x):
    """As FluxPipeline does."""
    b, c, h, w = x.shape
    return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)


def predict(model, data):
    ids = torch.zeros(HEIGHT // 2, WIDTH // 2, 3, dtype=torch.float64)
    ids[..., 1] += torch.arange(HEIGHT // 2)[:, None]
    ids[..., 2] += torch.arange(WIDTH // 2)[None, :]
    model = model.double()
    diffusers.models.embeddings.get_timestep_embedding = waves
    x, n, t = pack(data["latents"].double()), pack(data["noise"].double()), data["time"].double()
    guidance = torch.full((SAMPLES,), GUIDANCE, dtype=torch.float64) if model.config.guidance_embeds else None
    mixed = (1 - t[:, None, None]) * x + t[:, None, None] * n
    v = model(hidden_states=mixed, encoder_hidden_states=data["t5"].double(), pooled_projections=data["clip"].double(), timestep=t,
              img_ids=ids.reshape(-1, 3), txt_ids=torch.zeros(TEXT, 3, dtype=torch.float64), guidance=guidance).sample
    return v, (v - (n - x)).pow(2).mean()


def load(folder):
    """Strictly: every tensor has its place, and every place its tensor."""
    model, info = FluxTransformer2DModel.from_pretrained(folder, torch_dtype=torch.float32, low_cpu_mem_usage=False, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder}: {wrong}"
    return model


def settings(folder, data="data.safetensors"):
    """What weft convert --settings prints, for these data."""
    ini = run("convert", "--settings", folder)
    ini = ini.replace("    bf16                ; activations and weight copies in bf16\n", "").replace("path = train            ; your files", f"path = {data}")
    ini = ini.replace("[latents]\n", "[latents]\nalso = noise time\n").replace("[flux]\n", f"[flux]\ntext = {TEXT}\nimage = {8 * HEIGHT}\nimage_width = {8 * WIDTH}\n"
                                                                              f"noise = data\ntimestep = data\nguidance_scale = {GUIDANCE}\n")
    return ini.replace("global_batch = 8 ", f"global_batch = {SAMPLES} ")


def weft_values(folder, name, dtype="f32"):
    """What the first step of a run that begins with the folder predicts, and its gradients."""
    with open(f"{name}.ini", "w") as f:
        f.write(settings(folder).replace("    ckpt                ; saves and resumes\n", "    dump\n"))
    run("train", f"{name}.ini", "-o", f"weft.dir={name}.run", "-o", "train.steps=1", "-o", f"train.dtype={dtype}", "-o", "dump.what=gradients", "-o", "dump.values=v noise clip")
    values = load_file(f"{name}.run/dump/step-1/values.safetensors")
    return values, load_file(f"{name}.run/dump/step-1/gradients.safetensors")


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def compare(what, folder, name, data, dtype="f32"):
    values, gradients = weft_values(folder, name, dtype)
    order = [int(i) for i in (values["clip@0"][:, None] - data["clip"][None]).abs().sum(-1).argmin(1)]
    assert sorted(order) == list(range(SAMPLES)), order
    model = load(folder)
    v, loss = predict(model, data)
    loss.backward()
    error = distance(values["v@0"], v.detach()[order])
    worst = 0
    of = {name: p.grad for name, p in model.named_parameters()}
    all_of_them = torch.cat([g.flatten() for g in of.values()]).norm()
    for name, g in gradients.items():
        whole, columns = re.sub(r"proj_out\.(attn|mlp)\.weight", "proj_out.weight", name), None
        want = of[whole]
        if whole != name:
            dim = want.shape[0]
            want = want[:, :dim] if ".attn." in name else want[:, dim:]
        worst = max(worst, ((g.double() - want).norm() / (want.norm() + 1e-3 * all_of_them)).item())
    bound = 1e-6 if dtype == "f64" else 1e-4
    assert error < bound and worst < bound, f"{what}: prediction {error:.3g}, gradients {worst:.3g}"
    print(f"ok - {what}, {dtype}: prediction {error:.2g}, gradients {worst:.2g} of their norm")
    return error, worst


def same_bytes(a, b):
    def tensors(folder):
        found = {}
        for path in glob.glob(f"{folder}/*.safetensors"):
            found |= load_file(path)
        return found

    x, y = tensors(a), tensors(b)
    assert sorted(x) == sorted(y), set(x) ^ set(y)
    for name in x:
        assert x[name].dtype == y[name].dtype and torch.equal(x[name].view(torch.uint8), y[name].view(torch.uint8)), name
    return len(x)


def check(name, sizes, data):
    model = make(sizes)
    model.save_pretrained(f"{name}.hf", max_shard_size="60KB")
    assert len(glob.glob(f"{name}.hf/*.safetensors")) > 1
    found = {"name": name, "parameters": sum(p.numel() for p in model.parameters())}
    found["loaded"] = compare(f"{name}: what diffusers saved, loaded by weft", f"{name}.hf", name, data, "f64")
    run("convert", f"{name}.hf", f"{name}.weft")
    for size in "30KB", "5GB":
        run("convert", f"{name}.weft", f"{name}.back", "--max-shard-size", size, "--force")
        found["tensors"] = same_bytes(f"{name}.hf", f"{name}.back")
        there, back = dict(FluxTransformer2DModel.load_config(f"{name}.hf")), dict(FluxTransformer2DModel.load_config(f"{name}.back"))
        differ = {k: (there.get(k), back.get(k)) for k in there.keys() | back.keys()
                  if k not in ("_diffusers_version", "_name_or_path") and there.get(k) != back.get(k)}
        assert differ in ({}, {"out_channels": (None, None)}), differ
        load(f"{name}.back")
    print(f"ok - {name}: there and back, the same bytes and the same config")
    with open(f"{name}.train.ini", "w") as f:
        f.write(settings(f"{name}.hf"))
    run("train", f"{name}.train.ini", "-o", f"weft.dir={name}.trained", "-o", "train.steps=3", "-o", "adamw.lr=1e-2", "-o", "adamw.warmup_steps=0")
    run("convert", f"{name}.trained", f"{name}.exported")
    found["exported"] = compare(f"{name}: what weft trained and exported, loaded by diffusers", f"{name}.exported", f"{name}.again", data)
    assert distance(load(f"{name}.exported").proj_out.weight, model.proj_out.weight) > 1e-3, "three steps changed nothing"
    return found


CARD = """
## FluxTransformer2DModel, {name}

| what | result |
|---|---|
| model | 2 double and 3 single blocks, {parameters:,} parameters, random, none of them zero |
| diffusers' folder as a checkpoint of weft's and back | {tensors} tensors, each the same to the bit; `config.json` says the same; diffusers loads both strictly |
| its folder, loaded by weft, in f64: prediction of 3 samples, over its norm; worst gradient | {loaded[0]:.1e}; {loaded[1]:.1e} |
| three steps of training by weft, exported, loaded by diffusers strictly: the same in f32 | {exported[0]:.1e}; {exported[1]:.1e} |
"""


def write_golden(folder):
    """The smallest model with all kinds of tensors, and what it predicts."""
    model = make(dict(num_attention_heads=2, attention_head_dim=8, axes_dims_rope=(4, 2, 2), guidance_embeds=True), 1, 1)
    model.save_pretrained(folder)
    data = make_data(folder)
    v, loss = predict(model, data)
    save_file({"prediction": v.detach(), "loss": loss.detach().reshape(1)}, f"{folder}/expected.safetensors")


def main():
    if sys.argv[2:3] == ["--golden"]:
        write_golden(sys.argv[3])
        return
    page = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        os.environ["XDG_CACHE_HOME"] = os.path.join(top, "cache")
        data = make_data()
        cards = [check(name, sizes, data) for name, sizes in MODELS.items()]
    if page:
        card.write(page, WEFT, "check_diffusers.py", "diffusers", diffusers.__version__, "", [CARD.format(**found) for found in cards])


if __name__ == "__main__":
    main()
