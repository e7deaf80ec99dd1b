"""Live tensor bytes of steps in which some layers have adapters, with ranks of their own.

    python python/torch_abstract/make_methods.py > tests/fixtures/torch_abstract/methods.csv

Written with torch 2.15.0, transformers 5.23.0 and peft 0.21.2. The first columns are those of make_torch_abstract.py. Those
behind them are options of LoraConfig. Lists are separated by spaces.
"""

import csv
import gc
import sys

import make_torch_abstract as plain
import torch
from live import Live, second_step
from make_torch_abstract import DEFAULTS, FIGURES, KEYS
from peft import LoraConfig
from torch._subclasses.fake_tensor import FakeTensorMode

OPTIONS = ["rank_pattern", "layers_to_transform", "pattern"]
LINEAR = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


def cases():
    for model in ["smollm2-135m", "qwen2.5-0.5b"]:
        yield dict(model=model, rank_pattern="q_proj=4 down_proj=64")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="1")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="0 2", gradient_checkpointing=True)
        yield dict(model=model, pattern=r".*\.1\..*(q_proj|down_proj)", len=300)


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
