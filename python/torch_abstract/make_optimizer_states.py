"""Bytes of the states of PyTorch's, transformers' and bitsandbytes' optimizers after a step over one tensor, on a CPU: of a
parameter by itself, and of an embedding's table in a model whose optimizer transformers' Trainer makes.

Paged optimizers have no pages on a CPU, so their states are not here. Used with torch 2.15.0, transformers 5.23.0 and
bitsandbytes 0.50.2:

    python python/torch_abstract/make_optimizer_states.py > tests/fixtures/torch_abstract/optimizer_states.csv
"""

import functools
import tempfile

import bitsandbytes
import torch
import transformers
from transformers import Trainer, TrainingArguments
from transformers.optimization import Adafactor

SHAPES = [(100,), (4095,), (4096,), (64, 32), (128, 33), (500, 300)]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adafactor": lambda of: Adafactor(of, lr=1e-3, scale_parameter=False, relative_step=False),
    "adamw_8bit": lambda of: bitsandbytes.optim.AdamW(of, optim_bits=8),
    "lion": bitsandbytes.optim.Lion,
    "lion_8bit": lambda of: bitsandbytes.optim.Lion(of, optim_bits=8),
}
# The Trainer's names of bitsandbytes' optimizers.
TRAINER = {"adamw_8bit": "adamw_8bit", "lion": "lion_32bit", "lion_8bit": "lion_8bit"}
EMBEDDINGS = [shape for shape in SHAPES if len(shape) == 2]


def parameter_bytes(make, shape, dtype):
    parameter = torch.nn.Parameter(torch.randn(shape).to(dtype))
    return state_bytes(make([parameter]), parameter)


def embedding_bytes(optim, shape, dtype):
    """Its head is tied to it, so that they are one parameter."""
    embedding, head = torch.nn.Embedding(*shape, dtype=dtype), torch.nn.Linear(*reversed(shape), bias=False, dtype=dtype)
    head.weight = embedding.weight
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, optim=optim, use_cpu=True, report_to=[])
        optimizer = Trainer(torch.nn.ModuleList([head, embedding]), arguments).create_optimizer()
    return state_bytes(optimizer, embedding.weight)


def state_bytes(optimizer, parameter):
    parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    # PyTorch keeps AdamW's count of steps on the host.
    tensors = {key: value for key, value in optimizer.state[parameter].items() if key != "step"}
    storages = {value.untyped_storage().data_ptr(): value for value in tensors.values() if torch.is_tensor(value)}
    return sum(value.untyped_storage().nbytes() for value in storages.values())


versions = f"torch {torch.__version__} transformers {transformers.__version__} bitsandbytes {bitsandbytes.__version__}"
print(f"# {versions}")
print("optimizer,module,dtype,shape,state_bytes")


def write(name, module, shapes, count):
    for dtype_name, dtype in DTYPES.items():
        for shape in shapes:
            print(f"{name},{module},{dtype_name},{'x'.join(map(str, shape))},{count(shape, dtype)}")


for name, make in OPTIMIZERS.items():
    write(name, "none", SHAPES, functools.partial(parameter_bytes, make))
for name, optim in TRAINER.items():
    write(name, "embedding", EMBEDDINGS, functools.partial(embedding_bytes, optim))
