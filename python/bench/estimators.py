# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = [
#     "accelerate==1.15.0",
#     "agilerl-arena==1.29.0",
#     "canifinetune==0.4.1",
#     "pyyaml==6.0.4",
#     "torch==2.15.0",
#     "torch-preflight[hub]==0.5.0",
#     "transformers==5.24.0",
# ]
# ///
r"""Estimators of fine-tuning memory against published figures of one GPU, row by row.

    cargo build --release
    pip install agilerl-arena==1.29.0 canifinetune==0.4.1 'torch-preflight[hub]==0.5.0' accelerate==1.15.0 \
        transformers==5.24.0 torch==2.15.0 pyyaml==6.0.4
    python python/bench/estimators.py [--expctl target/release/expctl] [--csv docs/estimators.csv] > tables.md

Rows are those of experiments/published: `expctl accuracy` has the figures, `expctl plan` the cells and expctl's predictions.
Every estimator gets the inputs of a row that its interface takes, and answers with bytes or with the reason why not. The tables
go to the output, and every answer into the CSV. docs/estimators.md has the results and how to read them. Used with Python
3.12.1; it takes three minutes on two cores, most of them expctl's. No estimator needs a GPU or the network: where one would
download a `config.json`, it is handed the published one that is among expctl's presets.
"""
import argparse, collections, contextlib, csv, functools, importlib.metadata, io, json, statistics, subprocess, sys, tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import yaml

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "experiments/published"
# Published config.json files, which expctl's presets are
PRESETS = ROOT / "crates/arch/src/presets"

GiB = 1024**3
UNITS = {"bytes": 1, "MiB": 1024**2, "GiB": GiB, "MB": 10**6, "GB": 10**9}
METRICS = {"allocated_peak_bytes": "allocated", "reserved_peak_bytes": "reserved", "process_peak_bytes": "process"}

# Specs with measured peaks of decoders on one GPU. Left out: fsdp_qlora has two GPUs; the figures of qlora_7b and phi_4_mini,
# and most of unsloth_hf_fa2's, are calculated; distilbert_rsvd and transformers_one_gpu are of encoders; axolotl_colab has no
# peak; our_trainer_* is not PyTorch; lmcleaner and peft_train_memory have no figures.
STUDIES = {
    "h200": "our runs, H200",
    "ms_swift": "ms-swift",
    "fms_acceleration": "fms-acceleration",
    "fms_acceleration_orca": "fms-acceleration, unpacked",
    "torchtune": "torchtune, README",
    "torchtune_allocator": "torchtune, issue 1185",
    "unsloth_hf_fa2": "Unsloth, Hugging Face's column",
    "h100": "our runs, H100",
    "fitcheck_t4": "FitCheck, T4",
    "peft_metamathqa": "PEFT, MetaMathQA",
    "litgpt": "LitGPT",
    "torchao_optimizers": "torchao",
    "user_reports": "users' reports",
}
# The source names no GPU: the spec's is an assumption, of which no verdict is asked.
NO_GPU = ["ms_swift"]

NAMES = {
    "gemma-3-1b": "google/gemma-3-1b-pt",
    "gemma-3-270m": "google/gemma-3-270m",
    "gemma-2-2b": "google/gemma-2-2b",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-7b": "huggyllama/llama-7b",
    "llama-13b": "huggyllama/llama-13b",
    "llama-65b": "huggyllama/llama-65b",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
    "phi-3-mini": "microsoft/Phi-3-mini-4k-instruct",
    "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B",
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B",
    "qwen2.5-3b": "Qwen/Qwen2.5-3B",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M",
    "smollm2-360m": "HuggingFaceTB/SmolLM2-360M",
    "smollm2-1.7b": "HuggingFaceTB/SmolLM2-1.7B",
    "tinyllama-1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
}
# Defaults of a spec's keys that are read here
DEFAULTS = {
    "adapter": "lora", "adapter_dtype": "float32", "attn_implementation": "sdpa", "autocast": "none", "batch_size": 1,
    "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True, "dtype": "int4",
    "data": "synthetic", "gradient_accumulation_steps": 1, "gradient_checkpointing": "none", "lora_dropout": 0,
    "max_seq_length": 128, "optim": "adamw", "rank": 16, "target_modules": None, "task": "causal_lm", "trainable": None, "world_size": 1,
}


# The rows.

@dataclass
class Row:
    study: str
    cell: str
    figure: str                                   # the source's name for it
    evidence: str                                 # held_out, seen or corrected: what expctl's authors did with it
    published: dict                               # bytes by metric; empty if only whether it fitted is known
    fitted: bool | None                           # nothing if the source names no GPU
    keys: dict                                    # the cell's configuration, as in a spec
    plan: dict = field(repr=False)                # expctl's prediction

    @property
    def method(self):
        """full, or the adapter's name."""
        if self.keys["trainable"]:
            return "some weights"
        lora = {"lora": "LoRA", "dora": "DoRA"}.get(self.keys["adapter"])
        return "full" if lora and self.keys["rank"] == 0 else lora or self.keys["adapter"]

    @property
    def length(self):
        """Tokens of the longest sample."""
        data, limit = self.keys["data"], self.keys["max_seq_length"]
        lengths = data["synthetic"].get("lengths", "fixed") if isinstance(data, dict) else "fixed"
        if lengths == "fixed":
            return limit
        return min(limit, lengths["longest"] if isinstance(lengths, dict) else max(lengths))

    @property
    def targets(self):
        """The adapted layers as a name, or a list that has none."""
        targets = self.keys["target_modules"] or ["q_proj", "v_proj"]     # PEFT's choice for these families
        if targets == "all-linear":
            return "all-linear"
        names = {"q_proj v_proj": "queries and values", "k_proj o_proj q_proj v_proj": "attention"}
        return names.get(" ".join(sorted(targets)), targets)

    @property
    def for_expctl_alone(self):
        """What of the row no other estimator has a key for."""
        return ["allocator settings"] * bool(self.keys.get("allocator.env.PYTORCH_CUDA_ALLOC_CONF"))

    @property
    def quantised(self):
        return self.keys["dtype"] in ["int4", "int8"]

    @property
    def name(self):
        return NAMES[self.keys["model"]]

    @property
    def gpu_gib(self):
        """The GPU's memory by its box, in GiB."""
        return gpus()[self.keys["gpu"]]


def expctl(*arguments):
    done = subprocess.run([options.expctl, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True)
    if not done.stdout:
        sys.exit(f"expctl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


@functools.cache
def gpus():
    return {gpu["gpu"]: gpu["nominal_gib"] for gpu in json.loads(expctl("list", "--gpus", "--format", "json"))}


@functools.cache
def config_of(model):
    """The model's config.json, which says whether the head is a weight of its own, as not all published ones do."""
    from transformers import AutoConfig

    config = json.loads((PRESETS / f"{model}.json").read_text())
    return config | {"tie_word_embeddings": AutoConfig.for_model(**config).tie_word_embeddings}


def flat(keys, prefix=""):
    """Nested keys with dots, but for the data and lists."""
    result = {}
    for name, value in keys.items():
        nested = isinstance(value, dict) and name != "data"
        result |= flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return result


def rows_of(study):
    """The measured runs of a spec, each with all its peaks, and runs of which only the outcome is known."""
    spec = SPECS / f"{study}.yaml"
    tree = yaml.safe_load(spec.read_text())
    cells = {}
    for cell in json.loads(expctl("plan", str(spec), "--format", "json")):
        axes = {name: value for name, value in cell.items() if not name.startswith("predicted_")}
        known = {name: value for name, value in (flat(tree["defaults"]) | flat(axes)).items() if value is not None}
        cells[cell["cell_id"]] = DEFAULTS | known, cell
    rows, outcomes = {}, {}
    for line in csv.DictReader(io.StringIO(expctl("accuracy", str(spec), "--format", "csv"))) if "published" in tree else []:
        if line["section"] not in ["held_out", "seen", "corrected"] or cells[line["cell_id"]][0]["world_size"] > 1:
            continue
        if line["column"] == "outcome":
            outcomes[line["cell_id"]] = line
        elif metric := METRICS.get(line["column"]):
            keys, plan = cells[line["cell_id"]]
            value = round(float(line["published"].replace(",", "")) * UNITS[line["unit"]])
            # A cell may have several runs, whose figures have the same metric; the metrics of one run follow each other.
            run = 0
            while metric in rows.get((line["cell_id"], run), {"published": {}})["published"]:
                run += 1
            row = rows.setdefault((line["cell_id"], run), {"figures": {}, "published": {}, "evidence": {}})
            row["published"][metric], row["figures"][metric], row["evidence"][metric] = value, line["figure"], line["section"]
    for (cell, _), row in rows.items():
        keys, plan = cells[cell]
        first = next(metric for metric in METRICS.values() if metric in row["published"])
        fitted = None if study in NO_GPU else True
        yield Row(study, cell, row["figures"][first], row["evidence"][first], row["published"], fitted, keys, plan)
    measured = {cell for cell, _ in rows}
    for cell, line in outcomes.items():
        if cell not in measured:
            figure = line["figure"] or line["published"]
            yield Row(study, cell, figure, line["section"], {}, line["published"] == "fits", *cells[cell])


# The estimators. Each gives bytes by metric, its own metric first, its verdict on the GPU, and what of the row it could not be
# told; or it refuses.

class Refused(Exception):
    """The tool, or what its interface lacks, rules the row out."""


@dataclass
class Answer:
    predicted: dict
    fits: bool | None = None
    left_out: list = field(default_factory=list)


def expctl_plan(row):
    predicted = {metric: row.plan[f"predicted_{column}"] for column, metric in METRICS.items()}
    return Answer({metric: value for metric, value in predicted.items() if value}, row.plan["predicted_verdict"] == "fits")


def states_only(row):
    """Weights, gradients and optimizer states, by the numbers of weights alone."""
    weight = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "int4": 0.5}
    weights, trained = row.plan["predicted_parameter_count"], row.plan["predicted_trainable_count"]
    width = weight[row.keys["dtype"] if row.method in ["full", "some weights"] else row.keys["adapter_dtype"]]
    states = {"sgd": 0, "adafactor": 0, "lion": width, "adamw_8bit": 2, "paged_adamw_8bit": 2}.get(row.keys["optim"], 2 * width)
    adapters = 0 if row.method in ["full", "some weights"] else trained * width
    total = round(weights * weight[row.keys["dtype"]] + adapters + trained * (width + states))
    return Answer({"allocated": total}, total <= row.gpu_gib * GiB, ["activations"])


@functools.cache
def accelerate_sizes(model, dtype):
    """What `accelerate estimate-memory --dtypes DTYPE` prints under "Training using Adam"."""
    from accelerate.commands import estimate

    config = config_of(model)
    estimate.verify_on_hub = lambda name, token=None: SimpleNamespace(config=config, library_name="transformers")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        (Path(folder) / "config.json").write_text(json.dumps(config))
        arguments = SimpleNamespace(model_name=folder, library_name="transformers", trust_remote_code=False, dtypes=[dtype])
        return max(estimate.gather_data(arguments)[0][3].values())


def accelerate_estimate(row):
    if row.method != "full":
        raise Refused("no adapters: it has the training of all weights alone")
    if row.keys["optim"] not in ["adamw", "adamw_torch_fused"]:
        raise Refused(f"no optimizer but Adam ({row.keys['optim']})")
    dtype = "float32" if row.keys["dtype"] == "float32" and row.keys["autocast"] == "none" else "float16"
    left_out = ["batch", "length", "checkpointing"] + ["weights in 16 bits alone"] * (row.keys["dtype"] != "float32")
    total = accelerate_sizes(row.keys["model"], dtype)
    return Answer({"allocated": total}, total <= row.gpu_gib * GiB, left_out)


def canifinetune(row):
    from canifinetune.estimator import memory, model_metadata
    from pydantic import ValidationError

    if row.method not in ["full", "LoRA", "DoRA"]:
        raise Refused(f"no method but full, LoRA and QLoRA ({row.method})")
    model_metadata.fetch_model_config = lambda *_, **__: config_of(row.keys["model"])
    model_metadata.fetch_model_parameter_count = lambda *_, **__: row.plan["predicted_parameter_count"]
    short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    scopes = {"all-linear": "all_linear", "attention": "attention", "queries and values": "conservative"}
    inputs = {
        "model_id": row.name,
        "gpu_vram_gb": row.gpu_gib,
        "method": "full" if row.method == "full" else "qlora" if row.quantised else "lora",
        "seq_len": row.length,
        "micro_batch_size": row.keys["batch_size"],
        "gradient_accumulation_steps": row.keys["gradient_accumulation_steps"],
        "base_dtype": short[row.keys["bnb_4bit_compute_dtype"] if row.quantised else row.keys["dtype"]],
        "optimizer": row.keys["optim"],
        "gradient_checkpointing": row.keys["gradient_checkpointing"] != "none",
        "attention_implementation": row.keys["attn_implementation"],
    }
    if row.quantised:
        doubled = "_double_quant" if row.keys["bnb_4bit_use_double_quant"] else ""
        kinds = {"nf4": f"nf4{doubled}", "fp4": "fp4"}
        inputs["quantization"] = "int8" if row.keys["dtype"] == "int8" else kinds[row.keys["bnb_4bit_quant_type"]]
    if row.method != "full":
        inputs["lora_rank"] = row.keys["rank"]
        if isinstance(row.targets, str):
            inputs["lora_target_scope"] = scopes[row.targets]
        else:
            inputs["target_modules"] = row.targets
    try:
        estimate = memory.estimate(memory.EstimateRequest(**inputs))
    except ValidationError as error:
        raise Refused("; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()))
    except ValueError as error:
        raise Refused(str(error))
    sizes = estimate.memory
    reserved = sizes.total_estimated_gb - sizes.safety_margin_gb      # "safety margin reported separately"
    predicted = {"reserved": round(reserved * GiB), "allocated": round((reserved - sizes.cuda_overhead_gb) * GiB)}
    return Answer(predicted, estimate.feasible != "no", ["DoRA"] * (row.method == "DoRA"))


def torch_preflight(row):
    from torch_preflight import vram
    from torch_preflight.vram.providers import hub

    if row.quantised:
        raise Refused("no quantised weights among its precisions")
    hub.fetch_config = lambda name: config_of(row.keys["model"])
    modes = {"bfloat16": "pure-bf16", "float16": "pure-fp16", "float32": "fp32" if row.keys["autocast"] == "none" else "amp"}
    optimizer = row.keys["optim"].removeprefix("paged_").removesuffix("_torch_fused").replace("_", "-")
    profile = vram.resolve_profile(row.name, allow_network=True)
    config = vram.RunConfig(
        batch_size=row.keys["batch_size"],
        seq_len=row.length,
        precision=vram.PrecisionMode(modes[row.keys["dtype"]]),
        optimizer=vram.OptimizerKind(optimizer),
        gradient_checkpointing=row.keys["gradient_checkpointing"] != "none",
        flash_attention=row.keys["attn_implementation"] != "eager",
        accumulation_steps=row.keys["gradient_accumulation_steps"],
        frozen_fraction=1 - row.plan["predicted_trainable_count"] / row.plan["predicted_parameter_count"],
    )
    named = row.keys["gpu"].replace("rtx-", "rtx")
    gpu = {"gpu": named} if vram.hardware.resolve(named)[0] else {"gpu_memory": round(row.gpu_gib * GiB)}
    report = vram.estimate_config(profile, config, with_remediations=False, **gpu)
    sizes = report.breakdown
    predicted = {
        "process": sizes.total,
        "reserved": sizes.total - sizes.cuda_context,
        "allocated": sizes.total - sizes.cuda_context - sizes.fragmentation,
    }
    left_out = [] if row.method == "full" else ["adapters themselves, but for the share of weights that is trained"]
    return Answer(predicted, not report.band.is_failure, left_out)


def agilerl_arena(row):
    from agilerl.arena import memory
    from pydantic import ValidationError

    if row.method not in ["LoRA", "DoRA"]:
        raise Refused(f"no method but LoRA ({row.method})")
    manifest = {
        "algorithm": {
            "name": "SFT",
            "pretrained_model_name_or_path": row.name,
            "batch_size": row.keys["batch_size"],
            "micro_batch_size_per_gpu": row.keys["batch_size"],
            "max_model_len": row.length,
            "gradient_checkpointing": row.keys["gradient_checkpointing"] != "none",
            "attn_implementation": row.keys["attn_implementation"],
            "lora_config": {
                "lora_r": row.keys["rank"],
                "lora_dropout": row.keys["lora_dropout"],
                "target_modules": row.keys["target_modules"] or ["q_proj", "v_proj"],
            },
        },
        "environment": {"name": "rows", "env_type": "dataset", "dataset": "rows", "objective": "sft"},
    }
    if row.quantised:
        manifest["algorithm"]["quantization"] = {"int4": {"load_in_4bit": True}, "int8": {"load_in_8bit": True}}[row.keys["dtype"]]
    try:
        settings = memory.training_settings_from_manifest(manifest)
    except ValidationError:
        raise                                     # a mistake in the manifest above
    except ValueError as error:
        raise Refused(str(error))
    dtype = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[row.keys["dtype"]]
    settings = settings.model_copy(update={"weight_dtype": dtype})
    known = memory.lookup_gpu(row.keys["gpu"])
    device = known.device_spec() if known else memory.DeviceSpec(total_bytes=round(row.gpu_gib * GiB))
    arch = memory.ModelArch.from_hf_config(config_of(row.keys["model"]))
    model = memory.ModelSpec(model_id=row.name, arch=arch, n_params=row.plan["predicted_parameter_count"])
    phase = memory.estimate_training(model, device, settings)
    sizes = {component.key: component.n_bytes for component in phase.components}
    reserved = phase.total_bytes - sizes["overhead"]
    predicted = {"process": phase.total_bytes, "reserved": reserved, "allocated": reserved - sizes["allocator_reserve"]}
    left_out = ["whole logits"] + ["DoRA"] * (row.method == "DoRA") + ["optimizer"] * (row.keys["optim"] != "adamw")
    left_out += ["which layers"] * (row.targets not in ["all-linear", "attention"])
    return Answer(predicted, phase.fits, left_out)


ESTIMATORS = {
    "expctl": expctl_plan,
    "agilerl-arena": agilerl_arena,
    "canifinetune": canifinetune,
    "torch-preflight": torch_preflight,
    "accelerate": accelerate_estimate,
    "states only": states_only,
}


# The answers, and the tables of them.

def answers(rows):
    """Each estimator's answer to each row."""
    for row in rows:
        for name, estimator in ESTIMATORS.items():
            answer, status, reason = Answer({}), "answered", ""
            try:
                answer = estimator(row)
            except Refused as refused:
                status, reason = "refused", " ".join(str(refused).split())
            except Exception as error:
                status, reason = "error", f"{type(error).__name__}: {error}"
            # The figure that the tool predicts; else one that the row has and the tool a part for; else the tool has one for all.
            metric = next((metric for metric in [*answer.predicted, *METRICS.values()] if metric in row.published), "")
            predicted = answer.predicted.get(metric) or next(iter(answer.predicted.values()), None)
            published = row.published.get(metric)
            allocated = answer.predicted.get("allocated"), row.published.get("allocated")
            yield {
                "estimator": name,
                "study": row.study,
                "cell_id": row.cell,
                "figure": row.figure,
                "evidence": row.evidence,
                "model": row.name,
                "gpu": row.keys["gpu"],
                "method": f"{row.method}, {row.keys['dtype']}",
                "batch_size": row.keys["batch_size"],
                "length": row.length,
                "metric": metric,
                "published_bytes": published or "",
                "status": status,
                "predicted_bytes": predicted or "",
                "error": round(predicted / published - 1, 6) if predicted and published else "",
                "error_allocated": round(allocated[0] / allocated[1] - 1, 6) if all(allocated) else "",
                "fitted": "" if row.fitted is None else row.fitted,
                "predicted_fits": "" if row.fitted is None or answer.fits is None else answer.fits,
                "not_told": "; ".join(answer.left_out + row.for_expctl_alone * (name != "expctl" and status == "answered")),
                "reason": reason,
            }


def table(head, lines):
    """A Markdown table; columns of numbers to the right."""
    lines = [[str(value) for value in line] for line in lines]
    numbers = [all(line[column][0] in "+-—0123456789" for line in lines) for column in range(len(head))]
    for line in [head, ["---:" if number else "---" for number in numbers], *lines]:
        print("| " + " | ".join(line) + " |")
    print()


def percent(error, sign="+"):
    """Without its unit, which stands in the head of a table."""
    return f"{100 * error:{sign}.{2 if abs(error) < 0.01 else 1}f}"


def mean(errors):
    return percent(statistics.mean(map(abs, errors)), "") if errors else "—"


def of(results, name, column="published_bytes"):
    """The estimator's answers to rows that have this."""
    return [result for result in results if result["estimator"] == name and result[column] != ""]


def summary(results):
    """Errors of each estimator, and expctl's on the rows that it answered."""
    key = lambda result: (result["study"], result["cell_id"], result["figure"])
    ours = {key(result): result["error"] for result in of(results, "expctl", "error")}
    for name in ESTIMATORS:
        asked, answered = of(results, name), of(results, name, "error")
        failed = sum(result["status"] == "error" for result in asked)
        errors = [result["error"] for result in answered]
        refused = f"{len(asked) - len(answered) - failed}" + (f", {failed} failed" if failed else "")
        middle = percent(statistics.median(map(abs, errors)), "")
        allocated = [result["error_allocated"] for result in of(results, name, "error_allocated")]
        same = mean([ours[key(result)] for result in answered])
        farthest = percent(max(errors, key=abs))
        yield name, len(errors), refused, mean(errors), middle, farthest, f"{mean(allocated)} ({len(allocated)})", same


def verdicts(results):
    """How often an estimator says rightly whether a run fits: of those that ran, and of those that ran out of memory."""
    for name in ESTIMATORS:
        mine = of(results, name, "fitted")
        said = [result for result in mine if result["predicted_fits"] != ""]
        line = [name]
        for fitted in [True, False]:
            asked = [result for result in said if result["fitted"] == fitted]
            line.append(f"{sum(result['predicted_fits'] == fitted for result in asked)} of {len(asked)}")
        yield *line, len(mine) - len(said)


def by_evidence(results):
    """expctl's errors, by what its authors did with the rows."""
    for evidence in dict.fromkeys(result["evidence"] for result in of(results, "expctl")):
        errors = [result["error"] for result in of(results, "expctl") if result["evidence"] == evidence]
        middle = percent(statistics.median(map(abs, errors)), "")
        yield f"`{evidence}`", len(errors), mean(errors), middle, percent(max(errors, key=abs))


def by_study(results):
    """Mean errors by source, with the numbers of rows."""
    for study in dict.fromkeys(result["study"] for result in results if result["published_bytes"] != ""):
        line = []
        for name in ESTIMATORS:
            errors = [result["error"] for result in of(results, name, "error") if result["study"] == study]
            line.append(f"{mean(errors)} ({len(errors)})" if errors else "—")
        yield STUDIES[study], *line


def worst(results):
    """The rows that each estimator has furthest too high and too low."""
    for name in ESTIMATORS:
        ordered = sorted(of(results, name, "error"), key=lambda result: result["error"])
        for result in [ordered[-1], ordered[0]] if ordered else []:
            row = f"`{result['study']}` `{result['cell_id'][:6]}`"
            run = f"{result['model'].split('/')[1]}, {result['method']}, {result['batch_size']} × {result['length']}"
            sizes = [f"{result[column] / GiB:.2f}" for column in ["published_bytes", "predicted_bytes"]]
            yield name, percent(result["error"]), row, run, result["metric"], *sizes


def reasons(results):
    """Why rows were refused, and how many."""
    counts = collections.Counter((result["estimator"], result["reason"]) for result in results if result["status"] != "answered")
    return [(name, count, reason) for name in ESTIMATORS for (other, reason), count in counts.most_common() if other == name]


def report(title, results):
    print(f"## {title}\n")
    errors = ["mean error, %", "median, %", "worst, %"]
    table(["estimator", "answered", "refused", *errors, "allocated, mean, %", "expctl, same rows, %"], summary(results))
    table(["expctl's rows", "rows", *errors], by_evidence(results))
    table(["estimator", "ran, said to fit", "out of memory, said so", "no verdict"], verdicts(results))
    table(["mean error by source, %", *ESTIMATORS], by_study(results))
    table(["estimator", "error, %", "row", "run", "figure", "published, GiB", "predicted, GiB"], worst(results))
    table(["estimator", "rows", "reason"], reasons(results))


def main():
    rows = [row for study in STUDIES for row in rows_of(study) if row.keys["model"] in NAMES and row.keys["task"] == "causal_lm"]
    results = list(answers(rows))
    with open(options.csv, "w", newline="") as file:
        writer = csv.DictWriter(file, results[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(results)
    print(expctl("--version").strip())
    for package in ["agilerl-arena", "canifinetune", "torch-preflight", "accelerate", "transformers", "torch"]:
        print(package, importlib.metadata.version(package))
    print("Python", sys.version.split()[0], "\n")
    for title, corrected in [("Rows that corrected no rule of expctl", False), ("Rows that corrected rules of expctl", True)]:
        report(title, [result for result in results if (result["evidence"] == "corrected") == corrected])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--expctl", default="target/release/expctl")
    parser.add_argument("--csv", default=ROOT / "docs/estimators.csv")
    options = parser.parse_args()
    main()
