"""Temporary bytes of AdamW's step over all parameters of a group at once, as on a GPU, in steps with PEFT's methods.

    python python/torch_abstract/make_foreach.py > tests/fixtures/torch_abstract/foreach.csv

Written with torch 2.15.0, transformers 5.23.0 and peft 0.21.2. The columns are those of make_methods.py; the figure is the most
that is alive in the second step beyond what it leaves. Every trained parameter has a gradient.
"""

import csv
import gc
import sys

import make_methods as methods
import make_torch_abstract as plain
import torch
from live import Live
from make_torch_abstract import DEFAULTS, KEYS
from peft.optimizers import create_loraplus_optimizer
from torch._subclasses.fake_tensor import FakeTensorMode


def cases():
    for option in [dict(), dict(loraplus=True)]:
        for change in [dict(), dict(bias="all"), dict(bias="all", adapter_dtype="bfloat16"), dict(adapter="dora"),
                       dict(bias="lora_only", target_modules="q_proj,o_proj", rank=5)]:
            yield dict(model="qwen2.5-0.5b") | option | change
        yield dict(model="smollm2-135m", rank_pattern="q_proj=4 down_proj=64") | option
        yield dict(model="smollm2-135m", modules_to_save="embed_tokens mlp input_layernorm") | option


def measure(case):
    methods.follow(case)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        model, _ = plain.build(case)
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if case["loraplus"]:
            optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, lr=1e-3, loraplus_lr_ratio=16, foreach=True)
        else:
            optimizer = torch.optim.AdamW(trainable, foreach=True)
        for parameter in trainable:
            parameter.grad = torch.empty_like(parameter)
        live = Live()
        with live:
            optimizer.step()
            live.peak = live.now
            optimizer.step()
        return live.peak - live.now


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow([*KEYS, *methods.OPTIONS, "temporaries"])
    for case in cases():
        case = DEFAULTS | methods.OPTIONS | case
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in [*KEYS, *methods.OPTIONS]]
        table.writerow([*row, measure(case)])
        gc.collect()


if __name__ == "__main__":
    main()
