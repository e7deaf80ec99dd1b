"""Training steps of expctl compared with those of PyTorch + transformers + PEFT + bitsandbytes, in one run.

    pip install torch transformers peft bitsandbytes accelerate psutil
    cargo build --release
    python python/bench/against_torch.py [--runs 5] [--tcmalloc /path/to/libtcmalloc_minimal.so.4] [ROW ...]
    EXPCTL=/path/to/expctl python python/bench/against_torch.py --device cuda:0 [ROW ...]    # a build with --features cuda

Both train the same shapes from random weights (nothing is downloaded), in turn, so that a change of the machine's speed
meets both. Prints a Markdown table: medians over the runs of each run's median step, and the highest resident set. On a
GPU the peaks are those of live tensors, and the peer is never compiled.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile
from pathlib import Path

# name: the cell's keys, then the peer's options
ROWS = {
    "NF4": ({"dtype": "int4"}, {"tcmalloc": True}),
    "NF4, checkpointing": ({"dtype": "int4", "gradient_checkpointing": "full"}, {"checkpointing": True}),
    "bfloat16": ({"dtype": "bfloat16"}, {"tcmalloc": True, "compile": True}),
    "float32": ({"dtype": "float32"}, {}),
    "Llama-3.2-1B, NF4, checkpointing": (
        {"model": "llama-3.2-1b", "dtype": "int4", "gradient_checkpointing": "full", "batch_size": 1},
        {"checkpointing": True},
    ),
    "Llama-3.2-3B, NF4, checkpointing, 1 × 128": (
        {"model": "llama-3.2-3b", "dtype": "int4", "gradient_checkpointing": "full", "batch_size": 1, "max_seq_length": 128},
        {"checkpointing": True},
    ),
    "NF4, 1 × 128": ({"dtype": "int4", "batch_size": 1, "max_seq_length": 128}, {"tcmalloc": True}),
    "NF4, rank 256": ({"dtype": "int4", "rank": 256}, {"tcmalloc": True}),
    "BERT base, bfloat16, 8 × 128": (
        {"model": "bert-base", "task": "sequence_classification", "dtype": "bfloat16", "target_modules": ["query", "value"],
         "batch_size": 8, "max_seq_length": 128},
        {},
    ),
    "BERT base, float32, every weight, 8 × 128": (
        {"model": "bert-base", "task": "sequence_classification", "dtype": "float32", "rank": 0, "batch_size": 8, "max_seq_length": 128},
        {},
    ),
    "NF4, checkpointing, 1 × 8,192": (
        {"dtype": "int4", "gradient_checkpointing": "full", "batch_size": 1, "max_seq_length": 8192},
        {"checkpointing": True},
    ),
}
# Published config.json files, which expctl's presets are
PRESETS = Path(__file__).parents[2] / "crates/arch/src/presets"


def peer(options):
    """Trains in this process and prints seconds a step and the highest resident set."""
    import resource, time
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, BitsAndBytesConfig

    torch.manual_seed(0)
    cell = options["cell"]
    keys = json.loads((PRESETS / f"{cell['model']}.json").read_text())
    config = AutoConfig.for_model(**{key: value for key, value in keys.items() if not key.startswith("_")})
    classifies = cell.get("task") == "sequence_classification"
    auto = AutoModelForSequenceClassification if classifies else AutoModelForCausalLM
    device = torch.device(cell.get("device", "cpu"))
    on_gpu = device.type == "cuda"
    full = torch.float32 if cell["dtype"] == "float32" else torch.bfloat16
    quantised = cell["dtype"] == "int4"
    with tempfile.TemporaryDirectory() as folder:
        auto.from_config(config, dtype=full).save_pretrained(folder)
        extra = {}
        if quantised:
            extra["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                bnb_4bit_compute_dtype=torch.bfloat16)
        model = auto.from_pretrained(folder, dtype=full, device_map={"": device}, **extra)
    model.config.use_cache = False
    if quantised:
        model = prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=options.get("checkpointing", False),
            gradient_checkpointing_kwargs={"use_reentrant": False})
    if cell["rank"]:
        targets = cell.get("target_modules", "all-linear")
        model = get_peft_model(model, LoraConfig(r=cell["rank"], lora_alpha=2 * cell["rank"], target_modules=targets,
                                                 task_type="SEQ_CLS" if classifies else "CAUSAL_LM"))
    model.train()
    ids = torch.randint(0, config.vocab_size, (cell["batch_size"], cell["max_seq_length"]))
    labels = torch.randint(0, config.num_labels, (cell["batch_size"],)) if classifies else ids
    ids, labels = ids.to(device), labels.to(device)
    if options.get("compile") and not on_gpu:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0.0)
    seconds = []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(cell["max_steps"]):
        start = time.perf_counter()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cell["dtype"] != "float32"):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if on_gpu:
        peak = torch.cuda.max_memory_allocated()
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "bytes": peak}))


def run_peer(options, tcmalloc):
    environment = dict(os.environ)
    if options.get("tcmalloc") and tcmalloc:
        environment["LD_PRELOAD"] = tcmalloc
    command = [sys.executable, __file__, "--peer", json.dumps(options)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(output.stdout.splitlines()[-1])


def run_expctl(cell):
    with tempfile.TemporaryDirectory() as folder:
        spec = os.path.join(folder, "cell.yaml")
        with open(spec, "w") as file:
            json.dump({"name": "beside", "defaults": cell}, file)
        target = os.environ.get("CARGO_TARGET_DIR", "target")
        command = [os.environ.get("EXPCTL", f"{target}/release/expctl"), "run", spec, "--results", os.path.join(folder, "out"), "--progress", "none"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cells = os.path.join(folder, "out", "cells")
        home = os.path.join(cells, os.listdir(cells)[0])
        steps = [json.loads(line)["seconds"] for line in open(os.path.join(home, "steps.jsonl"))]
        measured = json.load(open(os.path.join(home, "record.json")))
        peak = find(measured, "allocated_peak_bytes" if "device" in cell else "process_peak_total_bytes")
        return {"seconds": statistics.median(steps[1:]), "bytes": peak}


def find(tree, key):
    """The value of a key anywhere in nested objects."""
    if isinstance(tree, dict):
        if key in tree:
            return tree[key]
        return next((found for value in tree.values() if (found := find(value, key)) is not None), None)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="one of: " + ", ".join(ROWS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--device", help="of both programs, such as cuda:0 (default: the CPU)")
    parser.add_argument("--tcmalloc", help="preloaded for the peers that are faster with it")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(json.loads(arguments.peer))
    print("| step | expctl | peer | ratio | expctl's peak | peer's peak |\n|---|---|---|---|---|---|")
    for name in arguments.rows or ROWS:
        keys, options = ROWS[name]
        cell = {"model": "smollm2-135m", "rank": 16, "batch_size": 4, "max_seq_length": 512, "max_steps": arguments.steps, **keys}
        if arguments.device:
            cell["device"] = arguments.device
        ours, theirs = [], []
        for _ in range(arguments.runs):
            ours.append(run_expctl(cell))
            theirs.append(run_peer({"cell": cell, **options}, arguments.tcmalloc))
        tokens = cell["batch_size"] * cell["max_seq_length"]
        speed = lambda runs: tokens / statistics.median(run["seconds"] for run in runs)
        peak = lambda runs: max(run["bytes"] for run in runs) / 1e9
        what = ", ".join(option for option in ("tcmalloc", "compile") if options.get(option) and not arguments.device) or "as installed"
        print(f"| {name} | {speed(ours):.0f} tokens/s | {speed(theirs):.0f} tokens/s ({what}) | "
              f"{speed(ours) / speed(theirs):.1f} × | {peak(ours):.2f} GB | {peak(theirs):.2f} GB |", flush=True)


main()
