"""Peaks of live bytes by PyTorch's own tracker of FSDP2, beside those of make_fsdp.py:

    python python/torch_abstract/compare_tracker.py

`torch.distributed._tools.fsdp2_mem_tracker` follows the second of two steps of the models of make_fsdp.py that `fully_shard`
shares between two processes. Prints a row for each, with the tracker's peak, the one of tests/fixtures/torch_abstract/fsdp.csv and
their ratio. Needs torch, transformers and peft.
"""

import csv
import functools
import gc
import os
import pathlib
import sys
import unittest.mock

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from make_fsdp import DEFAULTS, KEYS, NOTHING_IS_SENT, RANKS, cases, model_of, without_reduction, wrapped
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/torch_abstract/fsdp.csv"


def peak(case):
    torch.manual_seed(0)
    model = wrapped(case, model_of(case))
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-4)
    ids = torch.zeros(case["batch"], case["len"], dtype=torch.int64)
    steps = case["gradient_accumulation_steps"]
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=case["mixed"])
    tracker = FSDPMemTracker(model, optimizer)
    tracker.track_inputs((ids,))
    with unittest.mock.patch.multiple(dist, **NOTHING_IS_SENT), tracker:
        for _ in range(2):
            for number in range(steps):
                with without_reduction(case, model, number + 1 == steps), autocast():
                    loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            del loss
            # The first step has no states of the optimizer.
            snapshot = tracker.get_tracker_snapshot("peak")
            tracker.reset_mod_stats()
    return sum(devices.get("Total", 0) for devices in snapshot.values())


def run(rank, _):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29513")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    ours = {tuple(row[key] for key in KEYS): int(row["peak_step"]) for row in csv.DictReader(FIXTURE.open())}
    for case in cases():
        case = DEFAULTS | case
        if case["version"] != 2:
            continue
        tracked = peak(case)
        gc.collect()
        if rank == 0:
            words = tuple(str(case[key]).lower() if isinstance(case[key], bool) else str(case[key]) for key in KEYS)
            changed = " ".join(f"{key}={case[key]}" for key in KEYS if case[key] != DEFAULTS[key])
            print(f"{changed:110s} {tracked:>14,} {ours[words]:>14,} {tracked / ours[words]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, (sys.argv,), nprocs=RANKS)
