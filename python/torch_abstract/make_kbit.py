"""Live tensor bytes of steps with 4-bit weights after PEFT's k-bit preparation and TRL's casts, from fake tensors.

    python python/torch_abstract/make_kbit.py > tests/fixtures/torch_abstract/kbit.csv

Used with torch 2.15.0 and transformers 5.23.0. As in make_versions.py, a 4-bit weight is bytes of the right size, and the layers
of bitsandbytes and PEFT are modules that do what those do. `bitsandbytes` is the release whose product it is, of weights
with bnb_4bit_compute_dtype bfloat16: 0.46 computes in the format of float32 inputs; 0.50 dequantises to the format of the product,
older ones to that of the weight. `upcast` names who casts what is not quantised: peft casts it to
float32, and trl casts the embeddings and the head to bfloat16 after that.
"""

import csv
import gc
import itertools
import sys

import torch
import transformers
from live import Live, second_step
from presets import positions, preset
from torch._subclasses.fake_tensor import FakeTensorMode

MODELS = ["tinyllama-1.1b", "smollm2-135m", "mistral-7b"]
KEYS = ["model", "bitsandbytes", "upcast", "autocast", "gradient_checkpointing", "dropout", "batch", "len"]
FIGURES = ["end_of_forward", "peak_forward_backward", "peak_step", "after_optimizer_step", "between_steps"]
LAYERS, RANK, SCALING = 3, 16, 2.0
# Short samples show the layers' peaks, long ones the loss'.
SHAPES = [(2, 128), (4, 512)]


def cases():
    """Each preparation with and without autocast and checkpointing; then one key after another."""
    plain = dict(bitsandbytes="0.50.0", gradient_checkpointing="none", dropout=0.0)
    for model, (batch, length) in itertools.product(MODELS, SHAPES):
        for upcast, autocast in [("none", True), ("peft", False), ("peft", True), ("trl", True)]:
            case = plain | dict(model=model, upcast=upcast, autocast=autocast, batch=batch, len=length)
            yield case
            yield case | dict(gradient_checkpointing="reentrant", dropout=0.1, bitsandbytes="0.46.1")
            yield case | dict(gradient_checkpointing="not_reentrant", bitsandbytes="0.49.0")


class MatMul4Bit(torch.autograd.Function):
    """The product with a 4-bit weight: `MatMul4Bit` in `bitsandbytes/autograd/_functions.py`."""

    @staticmethod
    def forward(ctx, a, linear, bias):
        ctx.linear = linear
        if linear.direct:
            return torch.nn.functional.linear(a, linear.dequantised(a.dtype), bias)
        return torch.nn.functional.linear(a, linear.dequantised(torch.bfloat16).to(a.dtype), bias)

    @staticmethod
    def backward(ctx, grad):
        needs, _, bias_needs = ctx.needs_input_grad
        of_bias = grad.sum(0, dtype=torch.bfloat16) if bias_needs else None
        return torch.matmul(grad, ctx.linear.dequantised(torch.bfloat16).to(grad.dtype)) if needs else None, None, of_bias


class Linear4bit(torch.nn.Linear):
    """A linear layer in NF4, without a second quantisation: `Linear4bit` in `bitsandbytes/nn/modules.py`."""

    def __init__(self, linear, release):
        torch.nn.Module.__init__(self)
        self.direct, self.shape = release == "0.50.0", linear.weight.shape
        # `set_compute_type` follows the first input, whatever was configured, until 0.47.0.
        self.compute_dtype = None if release == "0.46.1" else torch.bfloat16
        self.in_features, self.out_features, self.bias = linear.in_features, linear.out_features, linear.bias
        numel = linear.weight.numel()
        self.register_buffer("packed", torch.empty(numel // 2, dtype=torch.uint8))
        self.weight = self.packed
        self.register_buffer("scales", torch.empty((numel + 63) // 64, dtype=torch.float32))
        self.register_buffer("code", torch.empty(16, dtype=torch.float32))

    def dequantised(self, dtype):
        return torch.empty(self.shape, dtype=dtype)

    def forward(self, x):
        if self.compute_dtype is None:
            self.compute_dtype = x.dtype
        bias = None if self.bias is None else self.bias.to(self.compute_dtype)
        return MatMul4Bit.apply(x.to(self.compute_dtype), self, bias).to(x.dtype)


class Lora(torch.nn.Module):
    """LoRA on a 4-bit weight: `Linear4bit` in `peft/tuners/lora/bnb.py`, with adapters in float32."""

    def __init__(self, base, dropout, autocast):
        super().__init__()
        self.base, self.autocast = base, autocast
        self.dropout = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()
        self.a = torch.nn.Linear(base.in_features, RANK, bias=False, dtype=torch.float32)
        self.b = torch.nn.Linear(RANK, base.out_features, bias=False, dtype=torch.float32)

    def forward(self, x):
        result = self.base(x).clone()
        if self.autocast:
            return result + self.b(self.a(self.dropout(x))) * SCALING
        output = self.b(self.a(self.dropout(x.to(torch.float32)))) * SCALING
        return result + output.to(result.dtype)


def prepare(model, upcast):
    """`prepare_model_for_kbit_training` and `peft_module_casting_to_bf16`."""
    if upcast == "none":
        return
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.float32)
    if upcast == "trl":
        for name, module in model.named_modules():
            if any(cast in name for cast in ["lm_head", "embed_tokens"]):
                module.to(torch.bfloat16)


def build(case, adapted=None):
    """The model of the case in training mode, prepared and with its adapters, which `adapted` may put on layers by their names."""
    family, keys = preset(case["model"])
    keys |= dict(num_hidden_layers=LAYERS, max_position_embeddings=positions(case["model"]))
    if family == "Mistral":
        keys["sliding_window"] = None
    config = getattr(transformers, family + "Config")(**keys)
    torch.set_default_dtype(torch.bfloat16)
    model = getattr(transformers, family + "ForCausalLM")._from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
    model.config.use_cache = False
    model.requires_grad_(False)
    quantised = []
    for block in model.model.layers:
        for part in [block.self_attn, block.mlp]:
            for name, linear in list(part.named_children()):
                if isinstance(linear, torch.nn.Linear):
                    quantised.append((part, name, linear))
    for part, name, linear in quantised:
        setattr(part, name, Linear4bit(linear, case["bitsandbytes"]))
    prepare(model, case["upcast"])
    for part, name, _ in quantised:
        layer = getattr(part, name)
        setattr(part, name, adapted(name, layer) if adapted else Lora(layer, case["dropout"], case["autocast"]))
    if case["gradient_checkpointing"] != "none":
        reentrant = case["gradient_checkpointing"] == "reentrant"
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
    return model.train()


def measure(case):
    """The figures of the second step."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        model = build(case)
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trainable, foreach=False)
        ids = torch.randint(0, 100, (case["batch"], case["len"]))
        live = Live()
        live.live[ids.untyped_storage()._cdata] = 0
        return second_step(model, optimizer, ids, ids, live, case["autocast"])


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(KEYS + FIGURES)
    for case in cases():
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in KEYS]
        table.writerow(row + measure(case))
        sys.stdout.flush()
        gc.collect()


if __name__ == "__main__":
    main()
