"""Learning rates of transformers' schedules: tests/fixtures/schedules.json.  python schedules.py

Each case is a cell's keys with the rates that transformers' Trainer would take; `refused` are the schedules that need a loss on
held-out data. A test fails if a newer release has a schedule that is in neither list."""
import json
from pathlib import Path

import torch
import transformers
from transformers import SchedulerType, TrainingArguments
from transformers.optimization import get_scheduler

OUT = Path(__file__).parents[2] / "tests/fixtures/schedules.json"
RATE, STEPS = 2e-4, 13
REFUSED = ["reduce_lr_on_plateau", "greedy"]
# Each schedule's `lr_scheduler_kwargs`, and the warm-ups that all of them are tried with.
KWARGS = dict(
    linear=[{}], constant=[{}], constant_with_warmup=[{}],
    cosine=[{}, dict(num_cycles=1.5)],
    cosine_with_restarts=[{}, dict(num_cycles=3)],
    polynomial=[{}, dict(power=2.0, lr_end=1e-5)],
    inverse_sqrt=[{}, dict(timescale=5)],
    cosine_with_min_lr=[dict(min_lr=2e-5), dict(min_lr_rate=0.3, num_cycles=1.0)],
    cosine_warmup_with_min_lr=[dict(min_lr=2e-5), dict(min_lr_rate=0.3, warmup_lr_rate=0.2)],
    warmup_stable_decay=[
        dict(num_decay_steps=4), dict(num_decay_steps=4, num_stable_steps=2, min_lr_ratio=0.1),
        dict(num_decay_steps=6, decay_type="linear", warmup_type="cosine", min_lr_ratio=0.05),
        dict(num_decay_steps=6, decay_type="1-sqrt", warmup_type="1-sqrt"), dict(num_decay_steps=12, num_cycles=1.0),
    ],
)
WARMUPS = [0, 1, 4, 0.2]


def rates(name, kwargs, warmup):
    args = TrainingArguments(output_dir="unused", warmup_steps=warmup, use_cpu=True)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    schedule = get_scheduler(name, optimizer, args.get_warmup_steps(STEPS), STEPS, kwargs)
    found = []
    for _ in range(STEPS):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


def main():
    names = [name.value for name in SchedulerType]
    assert sorted(names) == sorted([*KWARGS, *REFUSED]), "a schedule is new or gone"
    cases = [
        dict(lr_scheduler_type=name, lr_scheduler_kwargs=kwargs, warmup_steps=warmup, rates=rates(name, kwargs, warmup))
        for name, all_kwargs in KWARGS.items() for kwargs in all_kwargs for warmup in WARMUPS
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    OUT.write_text(f'{{"transformers": "{transformers.__version__}", "learning_rate": {RATE}, "steps": {STEPS}, '
                   f'"refused": {json.dumps(REFUSED)}, "cases": [\n{lines}\n]}}\n')


main()
