#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes flux_times.safetensors: how much noise there is before each step from noise to a picture, as diffusers' own scheduler has it for the published
FLUX.1 models: of dev, shifted by the places of the sequence, and of schnell, not shifted.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install diffusers==0.42.1 torch==2.15.0 safetensors==0.8.0 numpy
    /tmp/golden/bin/python tests/golden/generate_flux_times.py

    places.PLACES.STEPS  f64 [steps + 1], from 1 to 0 (diffusers computes them in f32)
    none.PLACES.STEPS    the same without a shift
"""

import os

import numpy as np
from diffusers import FlowMatchEulerDiscreteScheduler
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
# scheduler/scheduler_config.json of either
DEV = {"base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 4096, "max_shift": 1.15, "num_train_timesteps": 1000, "shift": 3.0,
       "use_dynamic_shifting": True}
SCHNELL = {**DEV, "shift": 1.0, "use_dynamic_shifting": False}

times = {}
for name, config in (("places", DEV), ("none", SCHNELL)):
    for places in (64, 256, 1536, 4096, 6144):
        slope = (DEV["max_shift"] - DEV["base_shift"]) / (DEV["max_image_seq_len"] - DEV["base_image_seq_len"])
        mu = DEV["base_shift"] + slope * (places - DEV["base_image_seq_len"])  # as diffusers' FluxPipeline asks for it
        for steps in (1, 4, 28, 50):
            scheduler = FlowMatchEulerDiscreteScheduler(**config)
            scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=mu if config is DEV else None)
            times[f"{name}.{places}.{steps}"] = scheduler.sigmas.double().numpy()
save_file(times, os.path.join(HERE, "flux_times.safetensors"))
