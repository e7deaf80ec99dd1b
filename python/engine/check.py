"""The engine in Python against our trainer: the losses of each step, for every family, method, format and optimizer that both have.

    cargo build --release && python python/engine/check.py [--python PYTHON] [--expctl EXPCTL] [--only STUDY,STUDY]

Without --python it makes a virtual environment in target/engine-venv and installs PyTorch, transformers, PEFT, accelerate and
bitsandbytes there, of the releases below. No GPU is needed; models are tiny, with random weights. In float32 losses agree to
2e-5, in other formats to 2e-2. It takes about six minutes beside the download.
"""
import argparse, json, pathlib, subprocess, sys, tempfile, venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures"
RELEASES = ["torch==2.15.0", "transformers==5.24.0", "peft==0.21.2", "accelerate==1.15.0", "bitsandbytes==0.50.2"]
FAMILIES = ["llama", "llama3", "phi3", "gemma", "gemma2", "gemma3", "qwen2", "qwen3", "ministral", "mistral"]
METHODS = ["lora", "dora", "ia3", "miss", "vera", "oft", "loha", "lokr", "prompt_tuning", "prefix_tuning", "ln_tuning"]
WITHOUT_RANK = ["ia3", "oft", "prompt_tuning", "prefix_tuning", "ln_tuning"]
START = {"weights": "random", "dtype": "float32", "max_seq_length": 48, "max_steps": 20, "batch_size": 2, "learning_rate": 0.002}
LLAMA = START | {"model": str(FIXTURES / "tiny_llama"), "rank": 4}
WITH_RANKS = {"ddp": {}, "fsdp1": {"distributed": "fsdp"}, "fsdp2": {"distributed": "fsdp", "fsdp_config": {"version": 2}}}
# Keys of one cell beside LLAMA's
OTHERS = [
    {"optim": "sgd"}, {"optim": "adafactor"}, {"optim": "lion"}, {"optim": "adamw_8bit", "rank": 0}, {"dtype": "int4"},
    {"dtype": "int8"}, {"dtype": "int4", "upcast": "peft", "autocast": "bfloat16"}, {"dtype": "bfloat16", "rank": 0}, {"dtype": "float16"}, {"weight_decay": 1.0},
    {"autocast": "float16", "gradient_checkpointing": "full"}, {"dtype": "int4", "bnb_4bit_quant_type": "fp4"},
    {"gradient_checkpointing": {"every": 2}, "lr_scheduler_type": "cosine", "warmup_ratio": 0.2, "weight_decay": 0.1},
    {"rank": 0, "trainable": [".*norm"]}, {"lora": {"loraplus_lr_ratio": 8.0}}, {"lora": {"init_lora_weights": "pissa"}},
    {"lora": {"use_rslora": True}}, {"adapter_dtype": "bfloat16"}, {"modules_to_save": ["embed_tokens"]}, {"attn_implementation": "eager"},
    {"lora_fa": "frozen", "target_modules": ["q_proj", "v_proj"], "layers_to_transform": [1]},
    {"num_train_epochs": 2, "max_steps": None, "data": {"synthetic": {"samples": 9}}, "gradient_accumulation_steps": 2},
    {"target_modules": ["q_proj", "lm_head"], "layers_to_transform": [0]}, {"exclude_modules": ["v_proj", "layers.0.mlp.down_proj"]},
]


def studies():
    """Cells by study: each is trained by both engines."""
    uneven = {"padding": "longest", "gradient_accumulation_steps": 2, "eval_fraction": 0.2, "attn_implementation": "eager",
              "data": {"synthetic": {"lengths": [10, 24, 48, 31]}}}
    labels = {"task": "sequence_classification", "num_labels": 3, "max_seq_length": 24, "max_steps": 10, "batch_size": 4,
              "eval_fraction": 0.25, "data": {"synthetic": {"lengths": [10, 24, 16]}}}
    models = {name: {"model": str(FIXTURES / f"tiny_{name}")} for name in [*FAMILIES, "bert", "distilbert"]}
    ranks = [{"rank": 0}, {"rank": 8}]
    # 10 samples of 8 a step: an epoch ends in one micro-batch, which one rank has.
    four = {"gradient_accumulation_steps": 4, "num_train_epochs": 2, "max_steps": None,
            "data": {"synthetic": {"lengths": [10, 24, 48, 31], "samples": 10}}}
    without_rank = {name: value for name, value in LLAMA.items() if name != "rank"}
    return {
        "families": [START | uneven | models[name] | rank for name in FAMILIES for rank in ranks],
        "encoders": [START | labels | models[name] | rank for name in ["bert", "distilbert"] for rank in ranks],
        "methods": [(without_rank if name in WITHOUT_RANK else LLAMA) | {"adapter": name} for name in METHODS],
        "others": [LLAMA | keys for keys in OTHERS],
    } | {name: [LLAMA | four | rank for rank in ranks] for name in WITH_RANKS}


def of_python(study, keys):
    """The keys of a cell of Python's: two ranks have half of the micro-batches each."""
    if study not in WITH_RANKS:
        return keys
    return keys | WITH_RANKS[study] | {"world_size": 2, "gradient_accumulation_steps": 2}


def interpreter():
    folder = ROOT / "target/engine-venv"
    if not (folder / "bin/python").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", *RELEASES], check=True)
    return folder / "bin/python"


def tolerance(keys):
    is_plain = keys["dtype"] == keys.get("adapter_dtype", "float32") == "float32" and "autocast" not in keys and "8bit" not in keys.get("optim", "")
    return 2e-5 if is_plain else 2e-2


def compare(study, cells, arguments, folder):
    """Trains a study's cells. Returns the number of those that differ."""
    include = [engine | keys for keys in cells for engine, keys in
               [({"engine": "candle"}, keys), ({"engine": "python"}, of_python(study, keys))]]
    spec = folder / f"{study}.yaml"
    spec.write_text(json.dumps({"name": study, "sweep": {"include": include}}))
    results = folder / study
    line = [arguments.expctl, "run", spec, "--results", results, "--python", arguments.python, "--progress", "none"]
    subprocess.run(line, stdout=subprocess.DEVNULL)
    listed = subprocess.run([arguments.expctl, "run", spec, "--results", results, "--python", arguments.python, "--dry-run", "--format",
                             "json"], stdout=subprocess.PIPE, check=True)
    ids = [cell["cell_id"] for cell in json.loads(listed.stdout)]
    wrong = 0
    for keys, ours, theirs in zip(cells, ids[::2], ids[1::2]):
        (ours, losses), (theirs, others) = [read(results / "cells" / name) for name in (ours, theirs)]
        more = {name: value for name, value in keys.items() if START.get(name) != value}
        said = ", ".join(f"{name}: {pathlib.Path(value).name if name == 'model' else value}" for name, value in more.items())
        if ours["status"] != "ok" or theirs["status"] != "ok" or len(losses) != len(others):
            wrong += 1
            print(f"{study}: {said}: {ours['status']} and {theirs['status']}: {theirs.get('reason') or ours.get('reason')}")
            continue
        off = max(abs(one - other) for one, other in zip(losses, others))
        evaluated = [record["measured"].get("loss_eval") for record in (ours, theirs)]
        if None not in evaluated:
            off = max(off, abs(evaluated[0] - evaluated[1]))
        is_same = ours["measured"]["trainable_count"] == theirs["measured"]["trainable_count"]
        is_right = off <= tolerance(keys) and is_same
        wrong += not is_right
        print(f"{study}: {said}: {len(losses)} losses differ by at most {off:.1e}{'' if is_right else ', TOO MUCH'}", flush=True)
    return wrong


def read(cell):
    """The record and the losses of a cell's folder."""
    record, steps = json.loads((cell / "record.json").read_text()), cell / "steps.jsonl"
    lines = steps.read_text().splitlines() if steps.exists() else []
    return record, [json.loads(line)["loss"] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="an interpreter with PyTorch, transformers, PEFT and bitsandbytes")
    parser.add_argument("--expctl", default=ROOT / "target/release/expctl")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these studies alone")
    arguments = parser.parse_args()
    arguments.python = arguments.python or interpreter()
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for study, cells in studies().items():
            if not arguments.only or study in arguments.only:
                wrong += compare(study, cells, arguments, pathlib.Path(folder))
                compared += len(cells)
    print(f"{compared} configurations compared, {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
