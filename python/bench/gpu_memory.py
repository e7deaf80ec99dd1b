"""The memory of training steps of PyTorch + transformers + PEFT + bitsandbytes, measured on a GPU, for cells of a spec.

    cargo build --release && pip install pyyaml                      # for `cells`
    pip install torch transformers peft accelerate bitsandbytes      # for `run`, on the machine with the GPU
    python python/bench/gpu_memory.py cells experiments/published/h100.yaml > cells.json
    python python/bench/gpu_memory.py run cells.json OUT [--seconds 240] [--jobs 6] [--only ID,ID] [--trace ID,ID]
    cp OUT/measured.csv experiments/published/h100.csv && expctl accuracy experiments/published/h100.yaml

`cells` asks `expctl plan` for the cells and their predictions, those of `sweep.include` first. It leaves out cells that would
be trained otherwise than they say, and tells which. `run` needs this repository's files and `cells.json`: no expctl, no
network. Models have random weights in the shapes of expctl's presets, written to a folder first and loaded with
`from_pretrained`. Each cell is trained in a process of its own, several beside each other as long as their predictions fit into
the GPU together. The process is a fork of one that has imported everything but not touched the GPU, or a new one if the
allocator's environment matters. The run ends by itself after `--seconds`; cells that were not begun are left out. It warns
where another release is installed than the cells' plans are of. It uses one GPU, the first of CUDA_VISIBLE_DEVICES.

`--only` and `--trace` take ids of cells, or their beginnings, with `*` and `?` for what they leave open.

A cell takes `max_steps` steps. Its phases are told apart by resetting PyTorch's peaks between them, which moves no block, so the
phases and what is reserved are of one run. A further step follows, which no figure is taken of: it tells which kernel
`scaled_dot_product_attention` took. For cells of `--trace`, all allocations until the first step's end are written down, each
with the lines that made it.

OUT gets these files, a row or a line as soon as a cell is done:

    measured.csv      cell_id and figures under expctl's names for them, in bytes
    cells.jsonl       the same with kernels, seconds, what was reserved when, and the predictions
    errors.csv        cells that failed, each with the end of its traceback
    machine.json      the GPU, releases, the size of the CUDA context, workspaces of cuBLAS
    traces/ID.csv.gz  allocations and releases of loading and the first step

`--device cpu` runs every cell with two narrow blocks and a few tokens, without figures: a check that all of them can be trained.
"""
import argparse, collections, contextlib, csv, ctypes, fnmatch, gc, gzip, importlib.metadata, json, os, re, shutil, signal
import subprocess, sys, tempfile, time, traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Published config.json files, which expctl's presets are
PRESETS = ROOT / "crates/arch/src/presets"
PHASES = ["load", "forward", "backward", "optimizer"]
COLUMNS = ["allocated_peak_bytes", "reserved_peak_bytes", *(f"allocated_peak_in_{phase}_bytes" for phase in PHASES),
           "process_peak_bytes", "allocated_mean_bytes", "allocated_end_bytes", "reserved_after_first_step_bytes",
           "reserved_after_last_step_bytes", "segments", "trainable_count"]
# Keys that are heeded here, with expctl's defaults. A cell with another key is not measured.
DEFAULTS = {
    "model": "smollm2-135m", "task": "causal_lm", "num_labels": 2, "dtype": "int4", "stack": "candle", "gpu": None, "rank": 16,
    "trainable": None, "adapter": "lora", "lora_alpha": None, "lora_dropout": 0.0, "target_modules": None,
    "layers_to_transform": None, "modules_to_save": None, "lora_fa": "none", "lora.use_rslora": False,
    "lora.init_lora_weights": "default", "lora.rank_pattern": {}, "lora.bias": "none", "lora.loraplus_lr_ratio": None,
    "ia3.feedforward_modules": None, "miss.init_weights": "default", "miss.mini_r": None, "miss.miss_dropout": 0.0,
    "vera.vera_dropout": 0.0, "prompt_tuning.num_virtual_tokens": 20, "prefix_tuning.num_virtual_tokens": 20,
    "adapter_dtype": "float32", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16", "llm_int8_threshold": None, "attn_implementation": "sdpa", "upcast": "none",
    "autocast": "none", "empty_cache_steps": 0, "batch_size": 1, "gradient_accumulation_steps": 1,
    "gradient_checkpointing": "none", "max_seq_length": 128, "max_steps": 10, "optim": "adamw", "learning_rate": 1e-4,
    "weight_decay": 0.0, "max_grad_norm": 1.0, "seed": 0, "data": "synthetic", "allocator": {}, "torch.use_cache": False,
    "torch.keep_outputs": "step", "torch.zero_grad": "after_step", "torch.use_reentrant": None, "torch.device_map": None,
    "torch.embedding_states_32bit": None, "torch.transformers_version": None, "torch.peft_version": None,
    "torch.bitsandbytes_version": None, "torch.torch_version": None, "torch.repeat_kv": None,
}
# Values that are heeded, of keys that have others too
HEEDED = {
    "stack": ["torch"], "task": ["causal_lm", "sequence_classification"], "dtype": ["float32", "bfloat16", "float16", "int8", "int4"],
    "adapter": ["lora", "dora", "ia3", "vera", "miss", "prompt_tuning", "prefix_tuning", "ln_tuning"],
    "attn_implementation": ["sdpa", "eager"], "upcast": ["none", "peft"], "gradient_checkpointing": ["none", "full"],
    "lora_fa": ["none", "frozen"], "torch.keep_outputs": ["none", "step", "next_forward"],
    "torch.zero_grad": ["after_step", "before_forward", "never"], "torch.repeat_kv": [True],
    "optim": ["adamw", "adamw_torch_fused", "adafactor", "sgd", "lion",
              *(f"{name}_{bits}bit" for name in ["paged_adamw", "paged_lion"] for bits in [8, 32]), "adamw_8bit", "lion_8bit"],
}
ALLOCATOR = "allocator.env."
MIB, GIB = 1 << 20, 1 << 30


# The cells, on a machine with expctl.

def flat(keys, prefix=""):
    """Nested keys by their dotted names, as far as DEFAULTS has them."""
    names = {}
    for name, value in keys.items():
        full = prefix + name
        inner = isinstance(value, dict) and any(known.startswith(full + ".") for known in [*DEFAULTS, ALLOCATOR])
        names |= flat(value, full + ".") if inner else {full: value}
    return names


def unmeasured(keys):
    """Why a cell is not measured here, or None. A key without a value is one that the cell does not heed."""
    def said(name):
        return f"{name}: {json.dumps(keys[name])} is not measured here"

    for name, values in HEEDED.items():
        if keys.get(name) is not None and keys[name] not in values:
            return said(name)
    if unknown := [name for name in keys if name not in DEFAULTS and not name.startswith(ALLOCATOR)]:
        return said(unknown[0])
    data = keys["data"] if isinstance(keys["data"], dict) else {keys["data"]: {}}
    given = (data.get("synthetic") or {}).get("lengths", "fixed")
    if list(data) != ["synthetic"] or not (given == "fixed" or isinstance(given, list) and len(set(given)) == 1):
        return said("data")
    if not keys["rank"]:
        return None
    adapter = keys["adapter"]
    parts = [] if adapter in ["lora", "dora", "vera", "miss"] else ["layers_to_transform", "modules_to_save"]
    parts += [] if adapter in ["lora", "dora", "vera", "miss", "ia3"] else ["target_modules"]
    for name in parts:
        if keys[name] is not None:
            return f"{said(name)} with adapter: {adapter}"
    if keys["lora.loraplus_lr_ratio"] and keys["optim"] != "adamw":
        return f"{said('optim')} with LoRA+"
    if keys["adapter_dtype"] not in [None, "float32", loaded_dtype(keys)]:
        return said("adapter_dtype")
    return None


def cells_of(spec, expctl):
    import yaml

    if not shutil.which(expctl):
        sys.exit(f"no program {expctl}: build it, or name another with --expctl")
    # expctl's numbers are YAML 1.2's: 2e-4 is one.
    yaml.SafeLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))
    tree = yaml.safe_load(Path(spec).read_text())
    # Without its figures, whose file is yet to be written. Other paths are relative to the spec's folder.
    with tempfile.NamedTemporaryFile("w", dir=Path(spec).parent, suffix=".yaml") as file:
        json.dump({name: value for name, value in tree.items() if name not in ["published", "claims"]}, file)
        file.flush()
        planned = subprocess.run([expctl, "plan", file.name, "--format", "json"], stdout=subprocess.PIPE)
    if planned.returncode not in [0, 1] or not planned.stdout:
        sys.exit(planned.returncode or 1)
    cells, rows, reasons = json.loads(planned.stdout), [], collections.Counter()
    for number, row in enumerate(cells):
        axes = {name: value for name, value in row.items() if not name.startswith("predicted_") and name not in ["cell_id", "advice"]}
        keys = flat(tree.get("defaults") or {}) | flat(axes)
        # An axis that other cells have alone is at its default here.
        keys = DEFAULTS | {name: value for name, value in keys.items() if value is not None or name in DEFAULTS}
        if reason := unmeasured(keys):
            reasons[reason] += 1
            continue
        predicted = {name.removeprefix("predicted_"): value for name, value in row.items() if name.startswith("predicted_")}
        rows.append({"cell_id": row["cell_id"], "number": number, "keys": keys, "predicted": predicted})
    for reason, count in reasons.items():
        print(f"cells left out: {count}, as {reason}", file=sys.stderr)
    if not rows:
        sys.exit(f"{spec} has no cell that is measured here")
    first = len(cells) - len((tree.get("sweep") or {}).get("include") or [])
    return sorted(rows, key=lambda row: row["number"] < first)


def chosen(cells, patterns, option):
    """Cells whose ids begin as a pattern says. A pattern that none has is an error."""
    for pattern in patterns:
        if not fnmatch.filter([cell["cell_id"] for cell in cells], pattern + "*"):
            sys.exit(f"{option}: no cell {pattern}")
    return [cell for cell in cells if any(fnmatch.fnmatch(cell["cell_id"], pattern + "*") for pattern in patterns)]


def warn_of_releases(cells):
    """Says which releases are installed that the cells' plans are not of."""
    for package in ["torch", "transformers", "peft", "bitsandbytes"]:
        planned = {cell["keys"][f"torch.{package}_version"] for cell in cells} - {None}
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed = importlib.metadata.version(package)
            others = [release for release in sorted(planned) if not f"{installed.split('+')[0]}.".startswith(f"{release}.")]
            if others:
                print(f"warning: {package} {installed} is installed, and plans are of {', '.join(others)}", flush=True)


# What NVIDIA's driver says, without CUDA.

class Nvml:
    class Memory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ["total", "free", "used"]]

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        self.device = ctypes.c_void_p()
        # The GPU that PyTorch takes, as import_all has CUDA number them.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        if visible.startswith("GPU-"):
            self.call("nvmlDeviceGetHandleByUUID", visible.encode(), ctypes.byref(self.device))
        else:
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(visible)), ctypes.byref(self.device))

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gives {code}")

    def used(self):
        """Bytes of the GPU that are taken, by whomever."""
        memory = self.Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(memory))
        return memory.used

    def total(self):
        memory = self.Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(memory))
        return memory.total

    def processes(self):
        """Bytes by process id."""
        count = ctypes.c_uint(256)
        found = (self.Process * 256)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.device, ctypes.byref(count), found)
        return {found[at].pid: found[at].used for at in range(count.value)}

    def capability(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvmlDeviceGetCudaComputeCapability", self.device, ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def driver(self):
        text = ctypes.create_string_buffer(96)
        self.call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(96))
        return text.value.decode()


def nvml():
    try:
        return Nvml()
    except (OSError, RuntimeError, AttributeError, ValueError):
        return None


def process_bytes(driver):
    """What the driver counts for this process, if it says so."""
    try:
        used = driver.processes().get(os.getpid()) if driver else None
    except (RuntimeError, AttributeError):
        return None
    # "Not available" is the largest number.
    return used if used and used < 1 << 60 else None


def import_all(device):
    """Imports what training needs, without a CUDA context: forks could not use it."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    driver = nvml() if device == "cuda" else None
    asked = torch.cuda.get_device_capability
    if driver:
        # bitsandbytes asks as it is imported, which would make a context.
        torch.cuda.get_device_capability = lambda _=None: driver.capability()
    try:
        import accelerate, peft, peft.optimizers, safetensors.torch, transformers
        import transformers.models.bert.modeling_bert, transformers.models.distilbert.modeling_distilbert
        import transformers.models.gemma.modeling_gemma
        import transformers.models.gemma2.modeling_gemma2, transformers.models.gemma3.modeling_gemma3
        import transformers.models.llama.modeling_llama, transformers.models.ministral.modeling_ministral, transformers.models.mistral.modeling_mistral
        import transformers.models.phi3.modeling_phi3, transformers.models.qwen2.modeling_qwen2
        import transformers.models.qwen3.modeling_qwen3
        import transformers.optimization, transformers.quantizers.quantizer_bnb_4bit, transformers.quantizers.quantizer_bnb_8bit
        with contextlib.suppress(ImportError):
            import bitsandbytes, transformers.integrations.bitsandbytes
    finally:
        torch.cuda.get_device_capability = asked
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


# Checkpoints of random weights.

def loaded_dtype(keys):
    """The format that a model is loaded in, before its linear layers are quantised."""
    return keys["bnb_4bit_compute_dtype"] if keys["dtype"] in ["int4", "int8"] else keys["dtype"]


def checkpoint_name(keys):
    return f"{keys['model']}-{keys['task']}-{keys['num_labels']}-{loaded_dtype(keys)}"


def shape_of(keys, tiny):
    from transformers import AutoConfig

    shape = json.loads((PRESETS / f"{keys['model']}.json").read_text())
    shape = {key: value for key, value in shape.items() if not key.startswith("_")}
    if tiny:
        layers = "n_layers" if "n_layers" in shape else "num_hidden_layers"
        shape |= {layers: 2, "vocab_size": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        if "layer_types" in shape:
            shape["layer_types"] = shape["layer_types"][:2]
    config = AutoConfig.for_model(**shape)
    if keys["task"] == "sequence_classification":
        config.num_labels = keys["num_labels"]
    return config


def auto_of(keys):
    import transformers

    return transformers.AutoModelForSequenceClassification if keys["task"] == "sequence_classification" else transformers.AutoModelForCausalLM


def write_checkpoint(folder, keys, tiny):
    """Weights whose hidden states have no outliers, so that int8's products find none: small ones, and even embeddings."""
    import torch
    from safetensors.torch import save_file

    dtype = getattr(torch, loaded_dtype(keys))
    config = shape_of(keys, tiny)
    with torch.device("meta"):
        model = auto_of(keys).from_config(config, dtype=dtype)
    torch.manual_seed(0)
    even = torch.rand(1 << 20).mul_(2).sub_(1)
    tensors = {}
    tied = getattr(model, "_tied_weights_keys", None) or {}
    for name, meta in model.state_dict().items():
        if config.tie_word_embeddings and any(re.fullmatch(pattern, name) or pattern == name for pattern in tied):
            continue
        if meta.dim() < 2:
            # Norms that are centred at 0, as Gemma's, have zeros.
            is_one = re.search("norm", name, re.I) and name.endswith("weight") and not config.model_type.startswith("gemma")
            tensors[name] = torch.full(meta.shape, 1.0 if is_one else 0.0, dtype=meta.dtype)
            continue
        scale = 0.05 if "embed" in name else 0.005
        pattern = (even * scale).to(meta.dtype)
        tensors[name] = pattern.repeat(-(-meta.numel() // pattern.numel()))[:meta.numel()].reshape(meta.shape)
    part = folder.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    config.architectures = [type(model).__name__]
    config.save_pretrained(part)
    save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
    part.rename(folder)


# A cell.

def load(keys, folder, device):
    """The model as a user loads it, with its adapters, in training mode."""
    import torch
    import transformers
    from peft import prepare_model_for_kbit_training

    dtype = getattr(torch, loaded_dtype(keys))
    quantised = keys["dtype"] in ["int4", "int8"]
    place = 0 if device == "cuda" else "cpu"
    extra = {"device_map": {"": place}} if quantised or keys["torch.device_map"] else {}
    if quantised:
        options = {"load_in_8bit": True}
        if keys["dtype"] == "int4":
            options = dict(load_in_4bit=True, bnb_4bit_quant_type=keys["bnb_4bit_quant_type"],
                           bnb_4bit_use_double_quant=keys["bnb_4bit_use_double_quant"], bnb_4bit_compute_dtype=dtype)
        elif keys["llm_int8_threshold"] is not None:
            options["llm_int8_threshold"] = float(keys["llm_int8_threshold"])
        if keys["model"].startswith("distilbert"):
            options["llm_int8_skip_modules"] = ["pre_classifier", "classifier"]
        extra["quantization_config"] = transformers.BitsAndBytesConfig(**options)
    model, info = auto_of(keys).from_pretrained(
        folder, dtype=dtype, attn_implementation=keys["attn_implementation"], output_loading_info=True, **extra)
    if info["missing_keys"]:
        raise RuntimeError(f"not loaded: {sorted(info['missing_keys'])[:5]}")
    if not extra and device == "cuda":
        model.to("cuda")
    model.config.use_cache = keys["torch.use_cache"]
    checkpoints = keys["gradient_checkpointing"] != "none"
    reentrant = {"use_reentrant": bool(keys["torch.use_reentrant"])}
    if keys["upcast"] == "peft":
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpoints, gradient_checkpointing_kwargs=reentrant)
    if checkpoints:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
    if keys["torch.repeat_kv"]:
        transformers.integrations.sdpa_attention.use_gqa_in_sdpa = lambda *_: False
    return adapt(model, keys).train()


def adapt(model, keys):
    import peft

    if not keys["rank"]:
        for name, parameter in model.named_parameters():
            names = [name, name.rsplit(".", 1)[0]]
            parameter.requires_grad_(keys["trainable"] is None or names[1] == "classifier" or any(
                re.fullmatch(rf"(.*\.)?({end})", name) for end in keys["trainable"] for name in names))
        return model
    targets, adapter = keys["target_modules"], keys["adapter"]
    if targets is None and adapter != "ia3":
        targets = "all-linear"
    common = {"task_type": "SEQ_CLS" if keys["task"] == "sequence_classification" else "CAUSAL_LM"}
    layers = common | {"target_modules": targets}
    if adapter != "ia3":
        layers |= {"layers_to_transform": keys["layers_to_transform"], "modules_to_save": keys["modules_to_save"], "r": keys["rank"]}
    if adapter in ["lora", "dora"]:
        start = {"default": True}.get(keys["lora.init_lora_weights"], keys["lora.init_lora_weights"])
        alpha = keys["lora_alpha"] or 2 * keys["rank"]
        config = peft.LoraConfig(**layers, lora_alpha=alpha, lora_dropout=keys["lora_dropout"], use_dora=adapter == "dora",
                                 use_rslora=keys["lora.use_rslora"], bias=keys["lora.bias"], init_lora_weights=start,
                                 rank_pattern=keys["lora.rank_pattern"])
    elif adapter == "ia3":
        config = peft.IA3Config(**layers, feedforward_modules=keys["ia3.feedforward_modules"])
    elif adapter == "vera":
        config = peft.VeraConfig(**layers, vera_dropout=keys["vera.vera_dropout"])
    elif adapter == "miss":
        mini = {} if keys["miss.init_weights"] == "default" else {"init_weights": "mini", "mini_r": keys["miss.mini_r"] or 1}
        config = peft.MissConfig(**layers, miss_dropout=keys["miss.miss_dropout"], **mini)
    elif adapter == "prompt_tuning":
        config = peft.PromptTuningConfig(**common, num_virtual_tokens=keys["prompt_tuning.num_virtual_tokens"])
    elif adapter == "prefix_tuning":
        config = peft.PrefixTuningConfig(**common, num_virtual_tokens=keys["prefix_tuning.num_virtual_tokens"])
    else:
        config = peft.LNTuningConfig(**common)
    model = peft.get_peft_model(model, config, autocast_adapter_dtype=keys["adapter_dtype"] == "float32")
    if keys["lora_fa"] == "frozen":
        for name, parameter in model.named_parameters():
            if "lora_A" in name:
                parameter.requires_grad_(False)
    return model


def optimizer_of(model, keys, device):
    import torch

    name, rate, decay = keys["optim"], keys["learning_rate"], keys["weight_decay"]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if keys["lora.loraplus_lr_ratio"]:
        from peft.optimizers import create_loraplus_optimizer
        return create_loraplus_optimizer(model, torch.optim.AdamW, lr=rate, loraplus_lr_ratio=keys["lora.loraplus_lr_ratio"])
    if name == "adamw":
        return torch.optim.AdamW(trained, lr=rate, weight_decay=decay)
    if name == "adamw_torch_fused":
        return torch.optim.AdamW(trained, lr=rate, weight_decay=decay, fused=True)
    if name == "sgd":
        return torch.optim.SGD(trained, lr=rate, weight_decay=decay)
    if name == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(trained, lr=rate, weight_decay=decay, scale_parameter=False, relative_step=False)
    import bitsandbytes as bnb

    if device != "cuda":
        return torch.optim.AdamW(trained, lr=rate)
    if "8bit" in name and keys["torch.embedding_states_32bit"] is not False:
        # As transformers' Trainer asks for it.
        manager = bnb.optim.GlobalOptimManager.get_instance()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                manager.register_module_override(module, "weight", {"optim_bits": 32})
    options = dict(lr=rate, weight_decay=decay, optim_bits=8 if "8bit" in name else 32, is_paged=name.startswith("paged_"))
    kind = bnb.optim.Lion if "lion" in name else bnb.optim.AdamW
    return kind(trained, **options)


class Meter:
    """Peaks of PyTorch's allocator by phase. Without a GPU it has none."""

    def __init__(self, device):
        self.is_on = device == "cuda"
        self.phases, self.allocated, self.reserved, self.ends = {}, 0, 0, []

    def end(self, phase):
        """Ends a phase: notes its peaks and begins to count anew."""
        if not self.is_on:
            return
        import torch

        peak = torch.cuda.max_memory_allocated()
        self.phases[phase] = max(peak, self.phases.get(phase, 0))
        self.allocated = max(peak, self.allocated)
        self.reserved = max(torch.cuda.max_memory_reserved(), self.reserved)
        stats = torch.cuda.memory_stats()
        self.ends.append((phase, stats["allocation.all.allocated"], stats["allocation.all.freed"]))
        torch.cuda.reset_peak_memory_stats()

    def begin(self):
        """Begins a phase with what is allocated now."""
        import torch

        if self.is_on:
            torch.cuda.reset_peak_memory_stats()

    def now(self, kind="allocated"):
        import torch

        return getattr(torch.cuda, f"memory_{kind}")() if self.is_on else 0


def lengths(keys):
    """The length of the samples, which are all the same, and of the rows that they are padded to."""
    data = keys["data"]
    synthetic = data["synthetic"] or {} if isinstance(data, dict) else {}
    given = synthetic.get("lengths", "fixed")
    row = keys["max_seq_length"]
    return (row if given == "fixed" else min(given[0], row)), row


class Loop:
    """A script's training loop, whose variables live as `torch.keep_outputs` says."""

    def __init__(self, model, optimizer, keys, device, tiny):
        import torch

        self.model, self.optimizer, self.keys, self.device = model, optimizer, keys, device
        self.length, self.row = lengths(keys)
        if tiny:
            self.length, self.row = (min(value, 24) for value in (self.length * 24 // self.row, self.row))
        self.vocabulary = 500 if tiny else model.config.vocab_size
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.precision = None if keys["autocast"] == "none" else getattr(torch, keys["autocast"])
        self.outputs = self.given = None

    def batch(self):
        import torch

        size = (self.keys["batch_size"] if self.vocabulary != 500 else 2, self.row)
        ids = torch.randint(3, self.vocabulary, size)
        given = {"input_ids": ids.to(self.device)}
        if self.length < self.row:
            given["attention_mask"] = (torch.arange(self.row) < self.length).long().expand(size).contiguous().to(self.device)
        given["labels"] = given["input_ids"]
        if self.keys["task"] == "sequence_classification":
            given["labels"] = torch.randint(0, self.keys["num_labels"], size[:1]).to(self.device)
        return given

    def autocast(self):
        import torch

        return torch.autocast(self.device, dtype=self.precision) if self.precision else contextlib.nullcontext()

    def step(self, meter, rest):
        """One step; `rest` is called at its end, before gradients are released."""
        import torch

        keep, zero = self.keys["torch.keep_outputs"], self.keys["torch.zero_grad"]
        if zero == "before_forward":
            self.optimizer.zero_grad()
        for _ in range(self.keys["gradient_accumulation_steps"]):
            self.micro_batch(keep, meter)
        if self.keys["max_grad_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.trained, self.keys["max_grad_norm"])
        self.optimizer.step()
        meter.end("optimizer")
        rest()
        if zero == "after_step":
            self.optimizer.zero_grad()
        elif zero == "never":
            self.optimizer.zero_grad(set_to_none=False)
        if keep != "next_forward":
            self.outputs = self.given = None
        # Gradients that are released belong to the optimizer's phase, and no other has them.
        meter.begin()

    def micro_batch(self, keep, meter):
        given = self.batch()
        if keep == "none":
            with self.autocast():
                loss = self.model(**given).loss
            meter.end("forward")
            loss.backward()
            # What the loss leads to dies with it, in the backward pass still.
            del loss
        else:
            with self.autocast():
                outputs = self.model(**given)
            self.outputs, self.given = outputs, given
            meter.end("forward")
            outputs.loss.backward()
        meter.end("backward")


def train(cell, folder, device, trace_to):
    """Trains the cell in this process, and gives its figures."""
    import torch

    keys, tiny = cell["keys"], device != "cuda"
    if reason := unmeasured(keys):
        raise ValueError(reason)
    begun = time.monotonic()
    torch.manual_seed(keys["seed"])
    driver = nvml() if device == "cuda" else None
    if device == "cuda":
        torch.cuda.init()
        if trace_to:
            torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=1_000_000)
    meter = Meter(device)
    model = load(keys, folder, device)
    meter.end("load")
    loaded = {"reserved_after_load_bytes": meter.now("reserved"), "allocated_after_load_bytes": meter.now()}
    load_seconds = time.monotonic() - begun
    optimizer = optimizer_of(model, keys, device)
    loop = Loop(model, optimizer, keys, device, tiny)
    resting, ends, reserved = [], [], []

    def at_rest():
        resting.append(meter.now())
        reserved.append(meter.now("reserved"))

    for number in range(1, keys["max_steps"] + 1):
        loop.step(meter, at_rest)
        if number == 1 and trace_to and device == "cuda":
            write_trace(torch.cuda.memory._snapshot()["device_traces"][0], meter.ends, trace_to)
            torch.cuda.memory._record_memory_history(enabled=None)
        if keys["empty_cache_steps"] and number % keys["empty_cache_steps"] == 0 and device == "cuda":
            torch.cuda.empty_cache()
        ends.append(meter.now())
    figures = {"trainable_count": sum(parameter.numel() for parameter in loop.trained)}
    found = {}
    if device == "cuda":
        torch.cuda.synchronize()
        used, holds = process_bytes(driver), torch.cuda.memory_reserved()
        figures |= {f"allocated_peak_in_{phase}_bytes": meter.phases[phase] for phase in PHASES}
        figures |= {
            "allocated_peak_bytes": meter.allocated, "reserved_peak_bytes": meter.reserved,
            "process_peak_bytes": used and meter.reserved + used - holds,
            "allocated_mean_bytes": round(sum(resting) / len(resting)), "allocated_end_bytes": ends[-1],
            "reserved_after_first_step_bytes": reserved[0], "reserved_after_last_step_bytes": reserved[-1],
            "segments": torch.cuda.memory_stats()["segment.all.current"],
        }
        found = {"device_used_bytes": driver.used() if driver else None, "context_bytes": used and used - holds,
                 "reserved_now_bytes": holds, "allocated_after_steps": ends, "reserved_after_steps": reserved,
                 "retries": torch.cuda.memory_stats()["num_alloc_retries"]}
    kernels = further_step(loop, meter)
    return {"cell_id": cell["cell_id"], "number": cell["number"], "figures": figures, "kernels": kernels, **found, **loaded,
            "load_seconds": round(load_seconds, 2), "seconds": round(time.monotonic() - begun, 2)}


def further_step(loop, meter):
    """A step of which only the kernels of attention are of interest."""
    import torch

    names, real = set(), torch.nn.functional.scaled_dot_product_attention

    def noted(*arguments, **options):
        output = real(*arguments, **options)
        masked = "with a mask" if options.get("attn_mask") is not None else "without a mask"
        shared = ", grouped" if options.get("enable_gqa") else ""
        names.add(f"{type(output.grad_fn).__name__} {masked}{shared}, {str(arguments[0].dtype)[6:]}")
        return output

    torch.nn.functional.scaled_dot_product_attention = noted
    try:
        loop.step(meter, lambda: None)
    finally:
        torch.nn.functional.scaled_dot_product_attention = real
    return sorted(names)


def write_trace(events, ends, path):
    """Allocations and releases in order, with the innermost lines of Python that led there, and the ends of phases."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ends, counts = list(ends), {"alloc": 0, "free_completed": 0}
    with gzip.open(path, "wt", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["action", "address", "bytes", "lines"])
        for event in events:
            if event["action"] in counts:
                counts[event["action"]] += 1
            if event["action"] != "free_requested":
                lines = [f"{Path(frame['filename']).name}:{frame['line']}:{frame['name']}" for frame in event.get("frames", [])]
                lines = [line for line in lines if not line.startswith(("module.py:", "gpu_memory.py:", "??:"))]
                action = event["action"].removesuffix("_completed")
                table.writerow([action, f"{event.get('addr', 0):x}", event["size"], " < ".join(lines[:6])])
            while ends and ends[0][1] <= counts["alloc"] and ends[0][2] <= counts["free_completed"]:
                table.writerow(["end", "", "", ends.pop(0)[0]])


def machine(device):
    """The GPU, releases, and what a process has before its first tensor; nothing else may run on the GPU meanwhile."""
    import torch

    found = {"python": sys.version.split()[0]}
    for package in ["torch", "transformers", "peft", "accelerate", "bitsandbytes", "numpy", "safetensors"]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    if device != "cuda":
        return found
    driver = nvml()
    before = driver.used() if driver else 0
    torch.cuda.init()
    first = torch.zeros(1, device="cuda")

    def context(name):
        torch.cuda.synchronize()
        holds = torch.cuda.memory_reserved()
        used = process_bytes(driver)
        found[f"{name}_by_process_bytes"] = used and used - holds
        found[f"{name}_by_device_bytes"] = driver and driver.used() - before - holds

    context("context")
    properties = torch.cuda.get_device_properties(0)
    found |= {"gpu": properties.name, "capability": list(torch.cuda.get_device_capability()), "total_memory": properties.total_memory,
              "multi_processors": properties.multi_processor_count, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
              "driver": driver and driver.driver(), "nvml_total": driver and driver.total(), "free_and_total": torch.cuda.mem_get_info()}
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        found["sdp_priority"] = [str(torch.nn.attention.SDPBackend(at)) for at in torch._C._get_sdp_priority_order()]
    found["sdp_enabled"] = {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in ["flash", "mem_efficient", "math", "cudnn"]}
    found["preferred_blas"] = str(torch.backends.cuda.preferred_blas_library())
    # What the first products leave in the allocator: workspaces, where they stay.
    workspaces = {}
    for name, dtype, bias, wants in [("bfloat16", torch.bfloat16, False, False), ("bfloat16 again", torch.bfloat16, False, False),
                                     ("bfloat16 with a bias", torch.bfloat16, True, False), ("float32", torch.float32, False, False),
                                     ("float32 with a bias", torch.float32, True, False), ("a backward pass", torch.bfloat16, True, True)]:
        weight = torch.zeros(256, 256, dtype=dtype, device="cuda", requires_grad=wants)
        offset = torch.zeros(256, dtype=dtype, device="cuda", requires_grad=wants) if bias else None
        rows = torch.zeros(64, 256, dtype=dtype, device="cuda")
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        product = torch.nn.functional.linear(rows, weight, offset)
        if wants:
            product.sum().backward()
            weight.grad = offset.grad = None
        peak = torch.cuda.max_memory_allocated() - held
        del product
        workspaces[name] = {"peak_bytes": peak, "left_bytes": torch.cuda.memory_allocated() - held}
    found["workspaces"] = workspaces
    context("context_with_cublas")
    return found | {"tensor_bytes": first.untyped_storage().nbytes()}


# Processes.

def in_child(job, arguments, result_path):
    """Does the job in this process and writes its result; both are plain data."""
    try:
        if job["kind"] == "machine":
            result = machine(arguments.device)
        elif job["kind"] == "checkpoint":
            write_checkpoint(Path(job["folder"]), job["keys"], arguments.device != "cuda")
            result = {}
        else:
            trace_to = Path(arguments.out) / "traces" / f"{job['cell']['cell_id']}.csv.gz"
            is_traced = job["cell"]["cell_id"] in arguments.trace
            result = train(job["cell"], job["folder"], arguments.device, trace_to if is_traced else None)
        written = {"ok": result}
    except BaseException:
        written = {"error": traceback.format_exc()[-3000:]}
    part = Path(f"{result_path}.part")
    part.write_text(json.dumps(written))
    part.rename(result_path)


def start(job, arguments, result_path, forks):
    """Starts a process for the job: its id."""
    allocator = {name.removeprefix(ALLOCATOR): value for name, value in job.get("keys", {}).items() if name.startswith(ALLOCATOR)}
    log = open(f"{result_path}.log", "w")
    if forks and not allocator:
        child = os.fork()
        if child:
            log.close()
            return child
        os.setpgrp()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            in_child(job, arguments, result_path)
        finally:
            os._exit(0)
    handed = Path(f"{result_path}.job")
    handed.write_text(json.dumps({"job": job, "arguments": vars(arguments), "result": str(result_path)}))
    environment = os.environ | {name: str(value) for name, value in allocator.items()}
    process = subprocess.Popen([sys.executable, __file__, "child", str(handed)], stdout=log, stderr=log, env=environment,
                               start_new_session=True)
    log.close()
    # Reaped with waitpid, as forks are.
    process.returncode = 0
    return process.pid


class Pool:
    """Runs jobs side by side, each within its time and all within the GPU's memory."""

    def __init__(self, arguments, scratch, jobs, deadline, budget, done, forks):
        self.arguments, self.scratch, self.waiting, self.deadline, self.budget = arguments, scratch, jobs, deadline, budget
        self.done, self.forks, self.running, self.count, self.ready = done, forks, {}, 0, set()

    def run(self):
        try:
            while (self.waiting or self.running) and time.monotonic() < self.deadline:
                self.start_some()
                if not self.running:
                    # What is left takes more time than there is.
                    break
                time.sleep(0.05)
                self.reap()
        finally:
            for child in list(self.running):
                self.end(child, "the run's time was over")

    def start_some(self):
        for job in list(self.waiting):
            if len(self.running) >= self.arguments.jobs or any(other.get("alone") for other, *_ in self.running.values()):
                return
            if job.get("alone") and self.running:
                return
            if self.deadline - time.monotonic() < job.get("least_seconds", 0):
                continue
            if job["kind"] == "cell" and job["folder"] not in self.ready:
                continue
            taken = sum(other.get("bytes", 0) for other, *_ in self.running.values())
            if self.running and taken + job.get("bytes", 0) > self.budget:
                continue
            self.waiting.remove(job)
            self.count += 1
            result = Path(self.scratch) / f"job{self.count}.json"
            child = start(job, self.arguments, result, self.forks)
            self.running[child] = (job, result, time.monotonic())

    def reap(self):
        now = time.monotonic()
        for child, (job, result, begun) in list(self.running.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                self.finish(child)
            elif now - begun > job.get("seconds", self.arguments.cell_seconds):
                self.end(child, f"it took more than {now - begun:.0f} seconds")

    def end(self, child, reason):
        job, result, _ = self.running[child]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        self.finish(child, reason)

    def finish(self, child, reason=None):
        job, result, begun = self.running.pop(child)
        others = [other for other, *_ in self.running.values()]
        log = Path(f"{result}.log")
        if result.exists():
            written = json.loads(result.read_text())
        else:
            tail = log.read_text(errors="replace")[-1500:] if log.exists() else ""
            written = {"error": f"{reason or 'the process ended without a result'}\n{tail}"}
        written["wall_seconds"] = round(time.monotonic() - begun, 1)
        self.done(job, written)
        if job["kind"] == "checkpoint" and "ok" in written:
            self.ready.add(job["folder"])
        elif job["kind"] == "checkpoint":
            for other in [other for other in self.waiting if other.get("folder") == job["folder"]]:
                self.waiting.remove(other)
                self.done(other, {"error": "its checkpoint was not written", "wall_seconds": 0})
        elif job["kind"] == "cell" and not any(other.get("folder") == job["folder"] for other in [*self.waiting, *others]):
            shutil.rmtree(job["folder"], ignore_errors=True)
        for file in self.scratch.glob(f"{result.name}*"):
            file.unlink()


def run(arguments):
    began = time.monotonic()
    deadline = began + arguments.seconds
    cells = json.loads(Path(arguments.cells).read_text())
    if arguments.only:
        cells = chosen(cells, arguments.only, "--only")
    arguments.trace = [cell["cell_id"] for cell in chosen(cells, arguments.trace, "--trace")]
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    import_all(arguments.device)
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here; with --device cpu, the run checks that the cells can be trained")
    warn_of_releases(cells)
    forks = not arguments.no_fork
    if torch.cuda.is_initialized():
        forks = False
    gc.freeze()
    print(f"imported after {time.monotonic() - began:.0f} s", flush=True)

    scratch = Path(tempfile.mkdtemp(prefix="gpu-memory-"))
    memory = Path("/dev/shm")
    # Checkpoints lie in memory if there is plenty, so that reading them takes no time.
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 50 * GIB
    folders = Path(tempfile.mkdtemp(prefix="gpu-memory-", dir=memory)) if has_room else scratch / "checkpoints"
    try:
        measured = measure(arguments, cells, out, scratch, folders, deadline, forks)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(folders, ignore_errors=True)
    print(f"ended after {time.monotonic() - began:.0f} s", flush=True)
    if not measured:
        sys.exit("no cell was measured")


def measure(arguments, cells, out, scratch, folders, deadline, forks):
    """Measures the cells: how many were."""
    found = {}

    def first(job, written):
        found.update(written)

    # The first process tells whether forks can use the GPU.
    for attempt in dict.fromkeys([forks, False]):
        found.clear()
        Pool(arguments, scratch, [{"kind": "machine", "seconds": 40}], deadline, 1 << 60, first, attempt).run()
        forks = attempt
        if "ok" in found:
            break
        if not attempt:
            sys.exit(f"no process can use the GPU: {(found.get('error', '').strip() or 'there was no time').splitlines()[-1]}")
        print(f"a fork can't use the GPU:\n{found.get('error', '')[-800:]}", flush=True)
    description = found.get("ok", {}) | {"forks": forks, "error": found.get("error")}
    (out / "machine.json").write_text(json.dumps(description, indent=2) + "\n")
    print(json.dumps(description), flush=True)
    knows_processes = bool(description.get("context_by_process_bytes")) or arguments.device != "cuda"
    context = description.get("context_with_cublas_by_device_bytes") or GIB
    budget = int(0.95 * description.get("total_memory", 1 << 60))

    jobs, known = [], set()
    # Where the driver does not tell processes apart, those of the first cells are measured with nothing beside them.
    alone = 0 if knows_processes else arguments.alone
    for cell in cells:
        folder = folders / checkpoint_name(cell["keys"])
        if folder not in known:
            known.add(folder)
            jobs.append({"kind": "checkpoint", "folder": str(folder), "keys": {name: cell["keys"][name] for name in DEFAULTS}})
        is_alone = alone > 0 and not any(name.startswith(ALLOCATOR) for name in cell["keys"])
        alone -= is_alone
        needs = (cell["predicted"].get("reserved_peak_bytes") or GIB) * 21 // 20 + context
        jobs.append({"kind": "cell", "folder": str(folder), "keys": cell["keys"], "cell": cell, "bytes": needs, "least_seconds": 8,
                     "alone": is_alone})
    driver = nvml() if arguments.device == "cuda" else None
    idle = driver.used() if driver else 0

    rows = csv.writer(open(out / "measured.csv", "w", newline="", buffering=1), lineterminator="\n")
    rows.writerow(["cell_id", "number", *COLUMNS])
    lines = open(out / "cells.jsonl", "w", buffering=1)
    errors = csv.writer(open(out / "errors.csv", "w", newline="", buffering=1), lineterminator="\n")
    errors.writerow(["cell_id", "number", "model", "error"])
    offs = {name: [] for name in COLUMNS}
    counts = {"measured": 0, "failed": 0}

    def done(job, written):
        if job["kind"] == "checkpoint":
            if "error" in written:
                errors.writerow([Path(job["folder"]).name, "", job["keys"]["model"], written["error"]])
                print(f"checkpoint {Path(job['folder']).name}: {written['error'][-600:]}", flush=True)
            return
        cell = job["cell"]
        what = f"{cell['cell_id']} {cell['keys']['model']} {cell['keys']['dtype']}"
        if "error" in written:
            counts["failed"] += 1
            errors.writerow([cell["cell_id"], cell["number"], cell["keys"]["model"], written["error"]])
            print(f"{what}: {written['error'].strip().splitlines()[-1][:300]}", flush=True)
            return
        counts["measured"] += 1
        result = written["ok"]
        figures = result["figures"]
        if job.get("alone") and figures.get("process_peak_bytes") is None and result.get("device_used_bytes"):
            own = result["device_used_bytes"] - idle
            figures["process_peak_bytes"] = figures["reserved_peak_bytes"] + own - result["reserved_now_bytes"]
            result["context_bytes"] = own - result["reserved_now_bytes"]
        rows.writerow([cell["cell_id"], cell["number"], *("" if figures.get(name) is None else figures[name] for name in COLUMNS)])
        lines.write(json.dumps(result | {"wall_seconds": written["wall_seconds"], "predicted": cell["predicted"], "keys": cell["keys"]}) + "\n")
        said = []
        for name in COLUMNS:
            value, predicted = figures.get(name), cell["predicted"].get(name)
            if value and predicted:
                offs[name].append((predicted / value - 1, cell["cell_id"]))
                if name in ["allocated_peak_bytes", "reserved_peak_bytes"]:
                    said.append(f"{name.split('_')[0]} {value / MIB:,.0f} MiB {100 * (predicted / value - 1):+.3f}%")
        print(f"{what}: {'; '.join(said)} {written['wall_seconds']} s", flush=True)

    Pool(arguments, scratch, jobs, deadline, budget, done, forks).run()
    print(f"{counts['measured']} of {len(cells)} cells measured, {counts['failed']} failed; predicted over measured, less one:")
    for name, values in offs.items():
        if values:
            sizes = sorted(abs(off) for off, _ in values)
            worst = max(values, key=lambda value: abs(value[0]))
            print(f"{name:40} {len(values):3} cells  mean {100 * sum(sizes) / len(sizes):.3f}%  median {100 * sizes[len(sizes) // 2]:.3f}%  "
                  f"worst {100 * worst[0]:+.3f}% ({worst[1]})", flush=True)
    return counts["measured"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="cells|run")
    expand = commands.add_parser("cells", help="print the cells of a spec, with their predictions")
    expand.add_argument("spec")
    expand.add_argument("--expctl", default=str(ROOT / "target/release/expctl"), help="the program, if not target/release/expctl")
    train_all = commands.add_parser("run", help="train cells")
    train_all.add_argument("cells")
    train_all.add_argument("out")
    train_all.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    train_all.add_argument("--seconds", type=float, default=240, help="the whole run ends after so many")
    train_all.add_argument("--cell-seconds", type=float, default=60, help="a cell ends after so many")
    train_all.add_argument("--jobs", type=int, default=6, help="processes side by side")
    train_all.add_argument("--alone", type=int, default=4, help="cells with nothing beside them, if the driver does not tell processes apart")
    train_all.add_argument("--only", type=lambda text: text.split(","), default=[], help="only these cells, ID,ID")
    train_all.add_argument("--trace", type=lambda text: text.split(","), default=[], help="write down the allocations of these cells, ID,ID")
    train_all.add_argument("--no-fork", action="store_true", help="import everything anew for each cell")
    commands.add_parser("child").add_argument("job")
    arguments = parser.parse_args()
    for name in ["spec", "cells"]:
        if hasattr(arguments, name) and not Path(getattr(arguments, name)).is_file():
            sys.exit(f"no file {getattr(arguments, name)}")
    try:
        if arguments.command == "cells":
            return print(json.dumps(cells_of(arguments.spec, arguments.expctl), indent=1))
        if arguments.command == "run":
            # The children end with it.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
            return run(arguments)
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; --help begins with what to install")
    handed = json.loads(Path(arguments.job).read_text())
    arguments = argparse.Namespace(**handed["arguments"])
    import_all(arguments.device)
    in_child(handed["job"], arguments, handed["result"])


if __name__ == "__main__":
    main()
