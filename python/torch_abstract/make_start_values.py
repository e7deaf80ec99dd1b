"""Live tensor bytes while PEFT puts an adapter on a layer whose start values it takes out of the weight.

    python python/torch_abstract/make_start_values.py > tests/fixtures/torch_abstract/start_values.csv

Written with torch 2.15.0 and peft 0.21.2. The layer is alone and on the CPU, and its adapter stays in the format of the weight,
as before `cast_adapter_dtype`. `peak` is the most over the weight, `end` what is there when the adapter is.
"""

import csv
import sys

import torch
from live import Live
from peft import LoraConfig
from peft.tuners.lora import Linear

SHAPES = [(768, 512, 16), (512, 768, 8), (640, 640, 64), (300, 1000, 3)]


def measure(init, dtype, rows, columns, rank):
    base = torch.nn.Linear(columns, rows, bias=False, dtype=getattr(torch, dtype))
    live = Live()
    live.see(base.weight)
    weight = live.now
    live.peak = 0
    with live:
        Linear(base, "default", LoraConfig(r=rank, init_lora_weights=init), r=rank, lora_alpha=rank)
        layer = None
        peak = live.peak
    live = Live()
    with live:
        layer = Linear(base, "default", LoraConfig(r=rank, init_lora_weights=init), r=rank, lora_alpha=rank)
        end = live.now
    del layer
    return peak - weight, end


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["init_lora_weights", "dtype", "rows", "columns", "rank", "peak", "end"])
    for init in ["default", "pissa", "olora"]:
        for dtype in ["float32", "bfloat16"]:
            for shape in SHAPES:
                table.writerow([init, dtype, *shape, *measure(True if init == "default" else init, dtype, *shape)])


main()
