"""Bytes of the states of PyTorch's, transformers' and bitsandbytes' optimizers after a step over one tensor, on a CPU.

Paged optimizers have no pages on a CPU, so their states are not here. Used with torch 2.15.0, transformers 5.23.0 and
bitsandbytes 0.50.2:

    python python/torch_abstract/make_optimizer_states.py > tests/fixtures/torch_abstract/optimizer_states.csv
"""

import bitsandbytes
import torch
import transformers
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


def state_bytes(make, shape, dtype):
    parameter = torch.nn.Parameter(torch.randn(shape).to(dtype))
    parameter.grad = torch.randn(shape).to(dtype)
    optimizer = make([parameter])
    optimizer.step()
    # PyTorch keeps AdamW's count of steps on the host.
    tensors = {key: value for key, value in optimizer.state[parameter].items() if key != "step"}
    storages = {value.untyped_storage().data_ptr(): value for value in tensors.values() if torch.is_tensor(value)}
    return sum(value.untyped_storage().nbytes() for value in storages.values())


versions = f"torch {torch.__version__} transformers {transformers.__version__} bitsandbytes {bitsandbytes.__version__}"
print(f"# {versions}")
print("optimizer,dtype,shape,state_bytes")
for name, make in OPTIMIZERS.items():
    for dtype_name, dtype in DTYPES.items():
        for shape in SHAPES:
            print(f"{name},{dtype_name},{'x'.join(map(str, shape))},{state_bytes(make, shape, dtype)}")
