#!/usr/bin/env python3
"""A worker that trains nothing: what a program does to take the trainer's place (docs/worker.md).

    expctl run SPEC --worker examples/worker.py
"""
import json, pathlib, re, sys, time

CPU = {"cpu": "none", "cores": 1, "memory_bytes": None, "os": "any"}


def say(event, **more):
    """Prints an event, which the run reads as it comes."""
    print(json.dumps({"event": event, **more}), flush=True)


def write(path, value):
    """Writes a file that appears whole or not at all."""
    part = path.with_name(".expctl-" + path.name)
    part.write_text(json.dumps(value))
    part.rename(path)


def train(folder, attempt):
    started, clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    cell = (folder / "cell.yaml").read_text()
    steps = int(re.search(r"^max_steps: (\d+)", cell, re.M)[1])
    found = {"engine": "worker.py", "threads": 1, "machine": CPU, "releases": {"python": sys.version.split()[0]}}
    say("started", **found)
    say("training", steps=steps, tokens_per_step=64)
    with open(folder / "steps.jsonl", "w") as log:
        for step in range(1, steps + 1):
            figures = {"step": step, "loss": 4.0 / step, "seconds": 0.001, "tokens": 64, "allocated_bytes": 1024 * step}
            print(json.dumps({**figures, "gradient_norm": 1.0, "learning_rate": 1e-4}), file=log, flush=True)
            say("step", steps=steps, **figures)
    measured = {
        "steps": steps, "loss_first": 4.0, "loss_last": 4.0 / steps, "step_seconds_median": 0.001,
        "tokens_per_second": 64000.0, "train_seconds": 0.001 * steps, "load_seconds": 0.0, "tokens": 64 * steps,
        "allocated_peak_bytes": 1024 * steps, "allocated_peak_by_category": {}, "allocated_peak_in_phase": {},
        "parameter_count": 10, "trainable_count": 1,
    }
    provenance = {"expctl_version": "0.1.0", "git_commit": None, "device": "cpu", "environment": {}, **found}
    write(folder / "record.json", {
        "cell_id": folder.name, "status": "ok", "attempt": attempt, "started_at": started,
        "wall_seconds": time.monotonic() - clock, "measured": measured, "provenance": provenance,
    })
    say("done")


if sys.argv[1] == "machine":
    print(json.dumps({
        "protocol": 1, "engine": "worker.py", "machine": CPU, "instruction_set": "portable",
        "auto_instruction_set": "portable", "allocators": ["retain"], "cuda": False,
    }))
else:
    train(pathlib.Path(sys.argv[2]), int(sys.argv[sys.argv.index("--attempt") + 1]))
