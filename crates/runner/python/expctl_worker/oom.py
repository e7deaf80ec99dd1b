"""An out-of-memory as an outcome: what was asked for, and what was held."""
import re

import torch

from . import memory

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# The name of releases before 2.5
OutOfMemory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
OF_GPU = re.compile(r"Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)")
# Of libraries that allocate for themselves, and do not say how much
OF_LIBRARY = re.compile(r"CUDA error: out of memory|_STATUS_ALLOC_FAILED|Cuda failure 2 'out of memory'")
OF_CPU = re.compile(r"you tried to allocate (\d+) bytes")


def request(error):
    """The request of an out-of-memory; None of another error."""
    words = str(error)
    of_gpu = OF_GPU.search(words) if isinstance(error, OutOfMemory) else None
    of_cpu = OF_CPU.search(words) if isinstance(error, RuntimeError) else None
    if of_gpu:
        asked = round(float(of_gpu[1]) * UNITS[of_gpu[2]])
    elif of_cpu:
        asked = int(of_cpu[1])
    elif isinstance(error, (OutOfMemory, MemoryError)) or OF_LIBRARY.search(words):
        asked = 0
    else:
        return None
    meter = memory.current
    held = {"phase": meter.phase, "allocated_bytes": meter.now() or 0, "budget_bytes": meter.budget} if meter else \
        {"phase": "load", "allocated_bytes": 0, "budget_bytes": None}
    return held | {"category": "temporary", "requested_bytes": asked}
