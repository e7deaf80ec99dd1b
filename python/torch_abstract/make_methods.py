"""Live tensor bytes of steps with PEFT's methods: adapters of some layers, and what is trained beside or in place of LoRA.

    python python/torch_abstract/make_methods.py > tests/fixtures/torch_abstract/methods.csv

Written with torch 2.15.0, transformers 5.23.0 and peft 0.21.2. The first columns are those of make_torch_abstract.py; `dtype` may
be int4, whose layers are those of make_kbit.py with PEFT's own adapters beside them, and `target_modules` may be default, for PEFT's
choice of the model. Those behind them are keys of a spec, where
`trainable` is what is trained with rank 0 and `pattern` a regular expression in place of target_modules. Lists are separated
by spaces. `adapter` may have options of PEFT's configuration behind its name; OFT's `rank` is `oft_block_size`.
"""

import ast
import contextlib
import csv
import gc
import re
import sys
from types import SimpleNamespace

import make_kbit
import make_torch_abstract as plain
import peft
import torch
from live import Live, second_step
from make_torch_abstract import DEFAULTS, FIGURES, KEYS
from peft.optimizers import create_loraplus_optimizer
from peft.tuners._buffer_dict import BufferDict
from peft.tuners.ia3 import bnb as ia3_bnb
from peft.tuners.lora import bnb, dora
from peft.tuners.ln_tuning import layer as ln_layer
from peft.tuners.loha import layer as loha_layer
from peft.tuners.lokr import layer as lokr_layer
from peft.tuners.miss import layer as miss_layer
from peft.tuners.oft import layer as oft_layer
from peft.tuners.tuners_utils import cast_adapter_dtype
from peft.tuners.vera import layer as vera_layer
from peft.utils import TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING
from peft.utils import other as peft_other
from peft.utils.quantization_utils import Bnb4bitBackend
from presets import preset
from torch._subclasses.fake_tensor import FakeTensorMode

OPTIONS = dict(rank_pattern="", layers_to_transform="", pattern="", trainable="", adapter="lora", bias="none", loraplus=False,
               lora_dropout=0, upcast="none", mini_r=0, virtual_tokens=0, padded=False,
               modules_to_save="")
LINEAR = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
MODELS = ["smollm2-135m", "qwen2.5-0.5b"]
FEEDFORWARD = ["down_proj"]
AUTOCASTS = torch.is_autocast_enabled
SCALE = torch.tensor(2.0)


def cases():
    for model in MODELS:
        yield dict(model=model, rank_pattern="q_proj=4 down_proj=64")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="1")
        yield dict(model=model, target_modules=LINEAR, layers_to_transform="0 2", gradient_checkpointing=True)
        yield dict(model=model, pattern=r".*\.1\..*(q_proj|down_proj)", len=300)
    yield from partial()
    yield from lora()
    yield from ia3()
    yield from vera()
    yield from miss()
    yield from ln_tuning()
    yield from prompt_tuning()
    yield from prefix_tuning()
    yield from saved_whole()
    yield from oft()
    yield from loha()
    yield from lokr()


def partial():
    """Some weights, without adapters."""
    for model in [*MODELS, "gemma-3-270m"]:
        for trainable in ["norm", "bias", "embed_tokens", "mlp.down_proj", "layers.1.*", "q_proj norm"]:
            if trainable != "bias" or model.startswith("qwen"):
                case = dict(model=model, rank=0, trainable=trainable)
                yield case
                yield case | dict(gradient_checkpointing=True, batch=3, len=77)
                yield case | dict(dtype="float32", batch=1, len=100)
    for trainable in ["bias", "LayerNorm"]:
        yield dict(model="bert-base", rank=0, trainable=trainable, dtype="float32", batch=8, len=128)


def lora():
    """LoRA's options, and DoRA."""
    options = [dict(bias="all"), dict(bias="lora_only", target_modules="q_proj,o_proj"), dict(bias="all", target_modules="k_proj"),
               dict(loraplus=True), dict(loraplus=True, bias="all")]
    for option in options:
        for change in [dict(), dict(gradient_checkpointing=True, batch=3, len=77), dict(dtype="float32", autocast=True), dict(dtype="int4", rank=8)]:
            yield dict(model="qwen2.5-0.5b") | option | change
    for model in MODELS:
        for change in [dict(), dict(lora_dropout=0.1), dict(target_modules="q_proj,v_proj", rank=5, batch=3, len=77)]:
            case = dict(model=model, adapter="dora") | change
            yield case
            yield case | dict(dtype="float32")
            yield case | dict(dtype="float32", autocast=True)
            yield case | dict(gradient_checkpointing=True)
            yield case | dict(dtype="int4")
            yield case | dict(dtype="int4", gradient_checkpointing=True, len=33)
    yield dict(model="qwen2.5-0.5b", adapter="dora", bias="all")


def ia3():
    """Scaled outputs and inputs."""
    for model in MODELS:
        for targets in ["default", "all-linear", "o_proj,down_proj"]:
            case = dict(model=model, adapter="ia3", target_modules=targets)
            yield case
            yield case | dict(gradient_checkpointing=True, batch=3, len=77)
            yield case | dict(dtype="float32", len=100)
            yield case | dict(dtype="float32", autocast=True)
            yield case | dict(adapter_dtype="bfloat16")
    # PEFT's layers beside 4-bit weights give float32, which not every layer behind them takes.
    for change in [dict(upcast="peft"), dict(autocast=True)]:
        case = dict(model="smollm2-135m", adapter="ia3", target_modules="default", dtype="int4") | change
        yield case
        yield case | dict(gradient_checkpointing=True, len=33)
    yield dict(model="bert-base", adapter="ia3", target_modules="default", dtype="float32", batch=8, len=128)


def vera():
    """Vectors between and after shared factors."""
    for change in [dict(rank=256), dict(rank=32, lora_dropout=0.1), dict(target_modules="q_proj,v_proj", rank=5, batch=3, len=77)]:
        yield from each_format(dict(model="smollm2-135m", adapter="vera") | change)


def miss():
    """Blocks, whole and repeated, for inputs that they divide and others."""
    for change in [dict(rank=64), dict(rank=50, lora_dropout=0.1), dict(rank=32, mini_r=8, target_modules="q_proj,down_proj", batch=3, len=77),
                   dict(rank=7, mini_r=16)]:
        yield from each_format(dict(model="smollm2-135m", adapter="miss") | change)


def ln_tuning():
    """Copies of norms."""
    for model in [*MODELS, "gemma-3-270m"]:
        yield from each_shape(dict(model=model, adapter="ln_tuning"))
    yield dict(model="smollm2-135m", adapter="ln_tuning", dtype="int4")
    yield dict(model="smollm2-135m", adapter="ln_tuning", dtype="int4", gradient_checkpointing=True, upcast="peft", len=33)


def prompt_tuning():
    """Virtual tokens before the others."""
    for model in [*MODELS, "gemma-3-270m"]:
        for tokens in [20, 200]:
            case = dict(model=model, adapter="prompt_tuning", virtual_tokens=tokens)
            yield from each_shape(case)
            yield case | dict(adapter_dtype="bfloat16")
            if not model.startswith("gemma"):
                yield case | dict(dtype="int4")
                yield case | dict(dtype="int4", gradient_checkpointing=True, upcast="peft", len=33)


def prefix_tuning():
    """Virtual tokens in the cache, which checkpointed blocks have none of."""
    for model in [*MODELS, "smollm2-1.7b", "gemma-2b"]:
        for tokens in [20, 200]:
            case = dict(model=model, adapter="prefix_tuning", virtual_tokens=tokens)
            for shape in each_shape(case):
                if not shape.get("gradient_checkpointing"):
                    yield shape
            yield case | dict(adapter_dtype="bfloat16")
            yield case | dict(dtype="int4")
            yield case | dict(dtype="int4", upcast="peft", autocast=True, batch=3, len=33)


def saved_whole():
    """Modules that are trained whole beside adapters."""
    for model in [*MODELS, "gemma-3-270m", "tinyllama-1.1b"]:
        for names in ["embed_tokens", "lm_head", "embed_tokens lm_head", "mlp input_layernorm"]:
            case = dict(model=model, modules_to_save=names, target_modules="q_proj,k_proj,o_proj")
            yield case
            yield case | dict(gradient_checkpointing=True, batch=3, len=77)
            yield case | dict(dtype="float32", autocast=True)
    for names in ["self_attn", "q_norm model.norm"]:
        yield dict(model="qwen3-0.6b", modules_to_save=names, target_modules="o_proj,up_proj")
    yield dict(model="qwen2.5-0.5b", modules_to_save="k_proj", bias="all")
    for names in ["embed_tokens", "lm_head", "embed_tokens lm_head", "input_layernorm"]:
        case = dict(model="smollm2-135m", modules_to_save=names, dtype="int4", target_modules="q_proj,k_proj,o_proj")
        yield case
        yield case | dict(gradient_checkpointing=True, upcast="peft", len=33)
        yield case | dict(upcast="peft", autocast=True)


def oft():
    """Rotated inputs, by series and exactly, for inputs that blocks divide and others."""
    for change in [dict(rank=32), dict(rank=64, adapter="oft use_cayley_neumann=False"), dict(rank=100, adapter="oft block_share=True"),
                   dict(rank=16, adapter="oft num_cayley_neumann_terms=3", target_modules="q_proj,down_proj", batch=3, len=77)]:
        yield from each_format(dict(model="smollm2-135m", adapter="oft") | change)
    for option in ["r=10", "block_share=True use_cayley_neumann=False", "num_cayley_neumann_terms=2", "num_cayley_neumann_terms=7"]:
        case = dict(model="qwen2.5-0.5b", adapter=f"oft {option}", rank=50)
        yield case
        yield case | dict(dtype="float32", autocast=True)
    yield dict(model="bert-base", adapter="oft", rank=48, dtype="float32", batch=8, len=128)
    for adapter in ["oft", "oft use_cayley_neumann=False", "oft block_share=True"]:
        case = dict(model="smollm2-1.7b", adapter=adapter, rank=256)
        yield from few_tokens(case)
        yield case | dict(dtype="int4", batch=1, len=8)
        yield case | dict(dtype="int4", batch=1, len=8, gradient_checkpointing=True)


def loha():
    """Sums with products of two matrices of low rank."""
    for change in [dict(rank=16), dict(rank=5, target_modules="q_proj,down_proj", batch=3, len=77)]:
        yield from each_dense_format(dict(model="smollm2-135m", adapter="loha") | change)
    yield dict(model="qwen2.5-0.5b", adapter="loha", rank=8, rank_pattern="q_proj=4 down_proj=64")
    yield dict(model="bert-base", adapter="loha", dtype="float32", batch=8, len=128)
    yield from few_tokens(dict(model="smollm2-1.7b", adapter="loha", rank=8))


def lokr():
    """Sums with Kronecker products, whose matrices may have a low rank."""
    for change in [dict(rank=8), dict(rank=64), dict(rank=8, adapter="lokr decompose_both=True"),
                   dict(rank=4, adapter="lokr decompose_both=True decompose_factor=16", target_modules="q_proj,down_proj", batch=3, len=77)]:
        yield from each_dense_format(dict(model="smollm2-135m", adapter="lokr") | change)
    yield dict(model="qwen2.5-0.5b", adapter="lokr", rank=8, rank_pattern="q_proj=4 down_proj=64")
    yield dict(model="bert-base", adapter="lokr", dtype="float32", batch=8, len=128)
    for adapter in ["lokr", "lokr decompose_both=True"]:
        yield from few_tokens(dict(model="smollm2-1.7b", adapter=adapter, rank=8))


def each_shape(case):
    """The case in several shapes: padded, eager, in two formats, with checkpoints and a cache."""
    yield case
    yield case | dict(padded=True, batch=3, len=77)
    yield case | dict(attn_implementation="eager", len=100)
    yield case | dict(dtype="float32", padded=True)
    yield case | dict(dtype="float32", autocast=True)
    yield case | dict(gradient_checkpointing=True, batch=3, len=77)
    yield case | dict(use_cache=True, batch=1)


def few_tokens(case):
    """The case with so few tokens that the layers need most, not the loss."""
    for change in [dict(), dict(gradient_checkpointing=True), dict(dtype="float32", autocast=True), dict(adapter_dtype="bfloat16")]:
        yield case | change | dict(batch=1, len=8)


def each_dense_format(case):
    """The case in several formats, with checkpoints and without."""
    yield case
    yield case | dict(gradient_checkpointing=True, batch=2, len=50)
    yield case | dict(dtype="float32")
    yield case | dict(dtype="float32", autocast=True)
    yield case | dict(adapter_dtype="bfloat16")


def each_format(case):
    """The same, and in 4 bits."""
    yield from each_dense_format(case)
    yield case | dict(dtype="int4")
    yield case | dict(dtype="int4", gradient_checkpointing=True, len=33)
    yield case | dict(dtype="int4", upcast="peft", autocast=True)


def config_of(case):
    """PEFT's configuration."""
    given = settings(case)
    if case["adapter"] == "ia3":
        names = given["target_modules"]
        scaled = [name for name in names if name in FEEDFORWARD] if isinstance(names, list) else FEEDFORWARD
        return peft.IA3Config(task_type=given["task_type"], target_modules=names, feedforward_modules=None if names is None else scaled)
    if case["adapter"] == "ln_tuning":
        return peft.LNTuningConfig(task_type=given["task_type"])
    if case["adapter"] in ["prompt_tuning", "prefix_tuning"]:
        config = peft.PromptTuningConfig if case["adapter"] == "prompt_tuning" else peft.PrefixTuningConfig
        return config(task_type=given["task_type"], num_virtual_tokens=case["virtual_tokens"])
    kept = {key: given[key] for key in ["r", "task_type", "target_modules", "layers_to_transform"] if key in given}
    if case["adapter"] == "vera":
        return peft.VeraConfig(**kept, vera_dropout=case["lora_dropout"])
    name, _, options = case["adapter"].partition(" ")
    options = {key: ast.literal_eval(value) for key, value in (option.split("=") for option in options.split())}
    if name == "oft":
        kept |= dict(r=0, oft_block_size=case["rank"]) | (dict(oft_block_size=0) if "r" in options else {})
        return peft.OFTConfig(**kept | options)
    if name in ["loha", "lokr"]:
        config = peft.LoHaConfig if name == "loha" else peft.LoKrConfig
        return config(**kept | options, alpha=2 * case["rank"], rank_pattern=given.get("rank_pattern", {}))
    if case["adapter"] == "miss":
        return peft.MissConfig(**kept, miss_dropout=case["lora_dropout"], **(dict(init_weights="mini", mini_r=case["mini_r"]) if case["mini_r"] else {}))
    return peft.LoraConfig(**given)


def settings(case):
    """The options of LoraConfig."""
    given = dict(r=case["rank"], lora_alpha=2 * case["rank"], task_type="SEQ_CLS" if case["model"] in plain.ENCODERS else "CAUSAL_LM",
                 target_modules=case["target_modules"],
                 use_dora=case["adapter"] == "dora", bias=case["bias"], lora_dropout=case["lora_dropout"])
    if case["target_modules"] == "default":
        given["target_modules"] = None
    elif case["target_modules"] != "all-linear":
        given["target_modules"] = case["target_modules"].split(",")
    if case["rank_pattern"]:
        ranks = (pair.split("=") for pair in case["rank_pattern"].split())
        given["rank_pattern"] = {name: int(rank) for name, rank in ranks}
    if case["layers_to_transform"]:
        given["layers_to_transform"] = [int(layer) for layer in case["layers_to_transform"].split()]
    if case["modules_to_save"]:
        given["modules_to_save"] = case["modules_to_save"].split()
    if case["pattern"]:
        given["target_modules"] = case["pattern"]
    return given


def train_some(model, ends):
    """Trains the weights that one of the patterns matches, or whose module it does, and a classifier."""
    for name, parameter in model.named_parameters():
        names = [name, name.rsplit(".", 1)[0]]
        is_meant = any(re.fullmatch(rf"(.*\.)?({end})", name) for end in ends for name in names)
        parameter.requires_grad_(is_meant or names[1] == "classifier")


def largest(case, names):
    """The most outputs and inputs of the layers with these names."""
    _, keys = preset(case["model"])
    hidden, inner = keys["hidden_size"], keys["intermediate_size"]
    head = keys.get("head_dim") or hidden // keys["num_attention_heads"]
    queries, states = head * keys["num_attention_heads"], head * keys["num_key_value_heads"]
    dims = dict(q_proj=(queries, hidden), k_proj=(states, hidden), v_proj=(states, hidden), o_proj=(hidden, queries),
                gate_proj=(inner, hidden), up_proj=(inner, hidden), down_proj=(hidden, inner))
    return [max(sizes) for sizes in zip(*(size for name, size in dims.items() if names == "all-linear" or name in names))]


def copied(module):
    """A copy of a module, which `deepcopy` does not make of fake tensors."""
    copy = type(module).__new__(type(module))
    torch.nn.Module.__init__(copy)
    copy.__dict__.update({name: value for name, value in module.__dict__.items() if not name.startswith("_")})
    for name, parameter in module._parameters.items():
        copy.register_parameter(name, None if parameter is None else torch.nn.Parameter(torch.empty_like(parameter)))
    for name, buffer in module._buffers.items():
        copy.register_buffer(name, torch.empty_like(buffer))
    for name, child in module.named_children():
        copy.add_module(name, copied(child))
    return copy


@contextlib.contextmanager
def unmoved():
    """Modules stay where they are: fake weights can't be swapped in place."""
    move, torch.nn.Module.to = torch.nn.Module.to, lambda self, *_, **__: self
    try:
        yield
    finally:
        torch.nn.Module.to = move


def build_kbit(case):
    """A model of 4-bit layers, with PEFT's adapters on them or beside them."""
    kbit = dict(bitsandbytes="0.50.0", gradient_checkpointing="not_reentrant" if case["gradient_checkpointing"] else "none")
    if case["adapter"] in ["ln_tuning", "prompt_tuning", "prefix_tuning"]:
        model = make_kbit.build(case | kbit, lambda _, base: base)
        with unmoved():
            return peft.get_peft_model(model, config_of(case)), True
    dora.dequantize_module_weight = lambda layer: layer.dequantised(torch.bfloat16) if hasattr(layer, "dequantised") else layer.weight
    for layer in [vera_layer, miss_layer, oft_layer]:
        layer.resolve_quantization_backend = lambda base, **_: Bnb4bitBackend() if hasattr(base, "dequantised") else None
    # PEFT copies a layer of this name before it asks for its weight, which fake tensors can't be.
    make_kbit.Linear4bit.__name__ = "Linear4bitToAsk"
    config = config_of(case)
    names = config.target_modules or TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING["qwen2" if "qwen" in case["model"] else "llama"]

    if case["adapter"] == "vera":
        dims = largest(case, names)
        shared = [BufferDict({"default": torch.empty(config.r, dims[1])}), BufferDict({"default": torch.empty(dims[0], config.r)})]

    def adapted(name, base):
        if not (names == "all-linear" or name in names):
            return base
        if case["adapter"] == "ia3":
            return ia3_bnb.Linear4bit(base, "default", config, is_feedforward=name in FEEDFORWARD)
        if case["adapter"] == "vera":
            return vera_layer.Linear(base, *shared, "default", config, r=config.r)
        if case["adapter"] == "miss":
            return miss_layer.MissLinear(base, "default", config, r=config.r)
        if case["adapter"].startswith("oft"):
            return oft_layer.Linear(base, "default", config, r=config.r)
        return bnb.Linear4bit(base, "default", config, r=config.r, lora_alpha=config.lora_alpha)

    with unmoved():
        model = make_kbit.build(case | kbit, adapted)
    cast_adapter_dtype(model, "default")
    peft_other._set_trainable(model, "default", case["modules_to_save"].split(), inference_mode=False)
    for name, parameter in model.named_parameters():
        is_bias = name.endswith(".bias") and (case["bias"] == "all" or case["bias"] == "lora_only" and "base_layer" in name)
        parameter.requires_grad_(any(part in name for part in ["lora_", "ia3_l", "vera_lambda", "miss_block", "oft_R", "modules_to_save"]) or is_bias)
    return model, True


def optimizer_of(model, case):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if case["loraplus"]:
        return create_loraplus_optimizer(model, torch.optim.AdamW, lr=1e-3, loraplus_lr_ratio=16, foreach=False)
    return torch.optim.AdamW(trainable, foreach=False)


def follow(case):
    """Builds models with the case's method and copies of fake tensors, and has PEFT ask for autocast of the CPU, not of CUDA. What PEFT
    keeps on the CPU is not counted: a scale, and the number that decides whether an adapter is left out."""
    plain.LoraConfig = lambda **_: config_of(case)
    ln_layer.deepcopy = copied
    peft_other.copy = SimpleNamespace(deepcopy=copied)
    for layer in [loha_layer, lokr_layer]:
        layer.torch = SimpleNamespace(**vars(torch) | dict(tensor=lambda _: SCALE, rand=lambda _: 1.0))
    torch.is_autocast_enabled = lambda device="cpu": AUTOCASTS(device)


def measure(case):
    follow(case)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        model, causal = build_kbit(case) if case["dtype"] == "int4" else plain.build(case)
        if case["trainable"]:
            train_some(model, case["trainable"].split())
        optimizer = optimizer_of(model, case)
        ids = torch.randint(0, 100, (case["batch"], case["len"]))
        labels = ids if causal else torch.randint(0, 2, (case["batch"],))
        live = Live()
        mask = torch.ones_like(ids) if case["padded"] else None
        for given in [ids, *([mask] if case["padded"] else [])]:
            live.live[given.untyped_storage()._cdata] = 0
        return second_step(model, optimizer, ids, labels, live, case["autocast"], mask)


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow([*KEYS, *OPTIONS, *FIGURES])
    for case in cases():
        case = DEFAULTS | OPTIONS | case
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in [*KEYS, *OPTIONS]]
        table.writerow(row + list(measure(case)))
        sys.stdout.flush()
        gc.collect()


if __name__ == "__main__":
    main()
