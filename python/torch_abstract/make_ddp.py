"""The buckets that DistributedDataParallel makes before the first step and after it, on two processes of the CPU (gloo).

    python python/torch_abstract/make_ddp.py > tests/fixtures/torch_abstract/ddp.json

Needs torch alone.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SMALL = [["float32", 100], ["float32", 1000], ["float32", 3]]
LARGE = [["float32", count] for count in [300_000, 5_000, 7_000_000, 1_000, 200_000, 6_000_000, 64, 500_000]]
MIXED = [["float32" if index % 3 else "bfloat16", count] for index, (_, count) in enumerate(LARGE)]
CASES = [
    {"sizes": sizes, "bucket_cap_mb": cap, "find_unused_parameters": looks, "gradient_as_bucket_view": view}
    for sizes in [SMALL, LARGE, MIXED]
    for cap in [None, 1, 1000]
    for looks in [False, True]
    for view in [False, True]
]


class Chain(torch.nn.Module):
    """Uses its parameters one after the other, so that their gradients come in the opposite order."""

    def __init__(self, sizes):
        super().__init__()
        values = [torch.ones(count, dtype=getattr(torch, dtype)) for dtype, count in sizes]
        self.values = torch.nn.ParameterList(values)

    def forward(self, x):
        for value in self.values:
            x = x * value.float().mean()
        return x


def buckets(model):
    return [bucket.buffer().nbytes for bucket in model.reducer._get_zeros_like_grad_buckets()]


def run(rank, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for case in CASES:
        keys = {key: case[key] for key in ["bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view"]}
        model = torch.nn.parallel.DistributedDataParallel(Chain(case["sizes"]), **keys)
        first = buckets(model)
        for _ in range(3):
            model(torch.ones(())).backward()
            # Each gradient has memory of its own, or lies in its bucket.
            gradients = {value.grad.untyped_storage().data_ptr() for value in model.parameters()}
            in_buckets = keys["gradient_as_bucket_view"]
            assert len(gradients) == len(buckets(model) if in_buckets else case["sizes"])
            for value in model.parameters():
                value.grad = None
        if rank == 0:
            results.append({**case, "first": first, "later": buckets(model)})
    dist.destroy_process_group()


if __name__ == "__main__":
    results = mp.Manager().list()
    mp.spawn(run, (results,), nprocs=2)
    rows = ",\n".join(json.dumps(row) for row in results)
    sys.stdout.write(f'{{"torch": "{torch.__version__}", "cases": [\n{rows}\n]}}\n')
