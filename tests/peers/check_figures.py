# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's and Prometheus' own readers on what a run has written that went on from step 4 to 6:
python check_figures.py RUN, with tensorboard and prometheus_client."""
import json
import struct
import sys

from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
lines = {}
for line in open(run + "/metrics.jsonl"):
    values = json.loads(line)
    if "loss" in values:
        lines[values["step"]] = values
last = max(lines)

# Of several writings of a step TensorBoard shows the last.
events = EventAccumulator(run + "/tb", size_guidance={"scalars": 0})
events.Reload()
tags = {"loss_metrics/global_avg_loss": "loss", "grad_norm": "grad_norm", "lr": "lr", "n_tokens_seen": "total_tokens"}
for tag, key in tags.items():
    found = [(e.step, e.value) for e in events.Scalars(tag)]
    narrow = [(s, struct.unpack("f", struct.pack("f", lines[s][key]))[0]) for s in sorted(lines)]
    assert found == narrow, (tag, found, narrow)
for tag in ["throughput(tps)", "time_metrics/end_to_end(s)", "time_metrics/data_loading(s)", "time_metrics/data_loading(%)", "memory/planned(GiB)"]:
    assert len(events.Scalars(tag)) == len(lines), tag

text = open(run + "/metrics.prom").read()
figures = {f.name: f for f in text_string_to_metric_families(text)}
value = {name: f.samples[0].value for name, f in figures.items()}
assert value["weft_step"] == last and value["weft_running"] == 0, value
assert abs(value["weft_loss"] - lines[last]["loss"]) <= 1e-8 * value["weft_loss"], value
assert figures["weft_tokens"].type == "counter" and value["weft_tokens"] == lines[last]["total_tokens"], value
assert any(s.labels["name"] == "lr" and s.labels["run"] for s in figures["weft_report"].samples), figures["weft_report"]
print("tensorboard and prometheus_client read", len(lines), "steps and", len(figures), "figures")
