"""Live tensor bytes of transformers' `generate`, from tensors of the CPU: prompts of a padded batch, then one token after the other.

    python python/torch_abstract/make_generation.py > tests/fixtures/torch_abstract/generation.csv

Written with torch 2.15.0, transformers 5.23.0 and peft 0.21.2. The columns are those of make_methods.py; `len` is the longest
prompt's length, and `new_tokens` how many are generated. The search is greedy and nothing ends it. `peak` is the most that is
alive meanwhile, weights included; a storage counts as in make_torch_abstract.py. Weights are random, and tensors are not fake,
since `generate` reads what it generates.
"""

import csv
import gc
import itertools
import sys

import make_methods
import make_torch_abstract as plain
import torch
from live import Live
from make_methods import OPTIONS
from make_torch_abstract import DEFAULTS, KEYS

FIGURES = ["peak"]
MODELS = ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-3-270m"]
ADAPTERS = [dict(adapter="lora"), dict(adapter="prompt_tuning", virtual_tokens=20), dict(adapter="prefix_tuning", virtual_tokens=20),
            dict(adapter="prefix_tuning", virtual_tokens=200)]


def cases():
    shapes = [dict(batch=4, len=60, new_tokens=5), dict(batch=3, len=2, new_tokens=70), dict(batch=8, len=33, new_tokens=40)]
    for model, adapter, shape in itertools.product(MODELS, ADAPTERS, shapes):
        if model != "gemma-3-270m" or adapter["adapter"] != "prefix_tuning":
            yield dict(model=model) | adapter | shape
    for model in MODELS[:2]:
        yield dict(model=model, rank=0, batch=5, len=40, new_tokens=20)
        yield dict(model=model, dtype="float32", batch=5, len=40, new_tokens=20)
        yield dict(model=model, attn_implementation="eager", batch=5, len=40, new_tokens=20)
        yield dict(model=model, autocast=True, dtype="float32", batch=2, len=20, new_tokens=10)
        yield dict(model=model, lora_dropout=0.1, batch=8, len=33, new_tokens=5)
        yield dict(model=model, batch=1, len=50, new_tokens=30)
        yield dict(model=model, adapter="prefix_tuning", virtual_tokens=20, batch=1, len=50, new_tokens=30)
    # Windows of 512 tokens in six of seven blocks.
    yield dict(model="gemma-3-270m", num_hidden_layers=7, batch=2, len=600, new_tokens=5)
    yield dict(model="gemma-3-270m", num_hidden_layers=7, batch=4, len=8, new_tokens=530)


def measure(case):
    make_methods.follow(case)
    move = torch.nn.Module.to
    model, _ = plain.build(case)
    torch.nn.Module.to = move
    model.eval()
    ids = torch.randint(5, 100, (case["batch"], case["len"]))
    mask = torch.ones_like(ids)
    mask[1:, 0] = 0
    live = Live()
    for tensor in itertools.chain(model.parameters(), model.buffers(), [ids, mask]):
        live.see(tensor)
    with live, torch.autocast("cpu", dtype=torch.bfloat16, enabled=case["autocast"]):
        model.generation_config.eos_token_id = None
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=case["new_tokens"], do_sample=False, pad_token_id=0)
    return [live.peak]


def main():
    table = csv.writer(sys.stdout, lineterminator="\n")
    keys = [*KEYS, *OPTIONS, "new_tokens"]
    table.writerow(keys + FIGURES)
    for case in cases():
        case = DEFAULTS | OPTIONS | case
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in keys]
        table.writerow(row + measure(case))
        sys.stdout.flush()
        gc.collect()


if __name__ == "__main__":
    main()
