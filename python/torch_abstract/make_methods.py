"""Live tensor bytes of steps in which some layers have adapters, with ranks of their own, or some weights are trained.

    python python/torch_abstract/make_methods.py > tests/fixtures/torch_abstract/methods.csv

Written with torch 2.15.0, transformers 5.23.0 and peft 0.21.2. The first columns are those of make_torch_abstract.py. Those
behind them are options of LoraConfig, and `trainable`: regular expressions for the ends of the names of weights, or of their
modules, which are trained without adapters. Lists are separated by spaces.
"""

import csv
import gc
import re
import sys

import make_torch_abstract as plain
import torch
from live import Live, second_step
from make_torch_abstract import DEFAULTS, FIGURES, KEYS
from peft import LoraConfig
from torch._subclasses.fake_tensor import FakeTensorMode

OPTIONS = ["rank_pattern", "layers_to_transform", "pattern", "trainable"]
LINEAR = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
ENCODER = dict(model="bert-base", dtype="float32", batch=8, len=128)


def cases():
    for model in ["smollm2-135m", "qwen2.5-0.5b"]:
        yield dict(model=model, rank_pattern="q_proj=4 down_proj=64")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="1")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="0 2", gradient_checkpointing=True)
        yield dict(model=model, pattern=r".*\.1\..*(q_proj|down_proj)", len=300)
        for change in [dict(), dict(gradient_checkpointing=True), dict(dtype="float32", batch=1), dict(attn_implementation="eager")]:
            yield dict(model=model, rank=0, trainable=".*norm", **change)
            yield dict(model=model, rank=0, trainable=r"layers\.[12]\..*", **change)
            yield dict(model=model, rank=0, trainable=r"layers\.1\.mlp\.down_proj embed_tokens", **change)
            if model == "qwen2.5-0.5b":
                yield dict(model=model, rank=0, trainable="bias", **change)
    yield ENCODER | dict(rank=0, trainable="bias")
    yield ENCODER | dict(rank=0, trainable=r".*LayerNorm layer\.2\..*")
    yield ENCODER | dict(rank=8, target_modules="query,value", layers_to_transform="1")


def measure(case):
    settings = {}
    if case["rank_pattern"]:
        ranks = (pair.split("=") for pair in case["rank_pattern"].split())
        settings["rank_pattern"] = {name: int(rank) for name, rank in ranks}
    if case["layers_to_transform"]:
        settings["layers_to_transform"] = [int(layer) for layer in case["layers_to_transform"].split()]
    if case["pattern"]:
        settings["target_modules"] = case["pattern"]
    plain.LoraConfig = lambda **given: LoraConfig(**(given | settings))
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        model, causal = plain.build(case)
        patterns = [re.compile(rf"(.*\.)?({pattern})$") for pattern in case["trainable"].split()]
        for key, weight in model.named_parameters() if patterns else []:
            names = [key, key.rsplit(".", 1)[0]]
            is_head = key.startswith("classifier")
            weight.requires_grad_(is_head or any(pattern.match(name) for pattern in patterns for name in names))
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trainable, foreach=False)
        ids = torch.randint(0, 100, (case["batch"], case["len"]))
        labels = ids if causal else torch.randint(0, 2, (case["batch"],))
        return second_step(model, optimizer, ids, labels, Live(), case["autocast"])


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(KEYS + OPTIONS + FIGURES)
    for case in cases():
        case = DEFAULTS | dict.fromkeys(OPTIONS, "") | case
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in KEYS + OPTIONS]
        table.writerow(row + list(measure(case)))
        sys.stdout.flush()
        gc.collect()


main()
