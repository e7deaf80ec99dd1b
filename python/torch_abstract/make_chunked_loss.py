"""Live tensor bytes of steps of transformers + PEFT with TRL's chunked loss, from fake tensors.

    git clone --branch v1.9.0 https://github.com/huggingface/trl
    python python/torch_abstract/make_chunked_loss.py trl/trl/trainer/sft_trainer.py > tests/fixtures/torch_abstract/chunked_loss.csv

Written with torch 2.15.0, transformers 5.23.0, peft 0.21.2 and TRL 1.9.0. Of TRL's file only the functions of the loss are taken:
they need none of its other packages. Where they ask how many tokens have a label, which fake tensors do not know, all have one.
The columns are those of make_torch_abstract.py. Autocast is left out: on a CPU it lets log_softmax compute in 16 bits, on a GPU
in float32.
"""

import contextlib
import csv
import sys
import types

import torch
from live import Live, second_step
from make_torch_abstract import DEFAULTS, FIGURES, KEYS, build
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.modeling_outputs import CausalLMOutputWithPast

CASES = [
    dict(batch=1, len=600),
    dict(batch=2, len=300),
    dict(batch=2, len=300, rank=0),
    dict(batch=1, len=600, dtype="float32"),
    dict(batch=2, len=700, gradient_checkpointing=True),
]


def chunked_loss(path):
    """TRL's function, with what it calls."""
    with open(path) as file:
        source = file.read()
    begin, end = source.index("def _chunk("), source.index("def _patch_chunked_ce_lm_head(")
    source = source[begin:end]
    for asked, known in [
        ("if n_valid_tensor == 0:", "if False:"),
        ("n_padded = (n_valid_tensor / chunk_size).ceil().to(torch.int64) * chunk_size", "n_padded = len(labels)"),
    ]:
        assert asked in source
        source = source.replace(asked, known)
    names = dict(torch=torch, F=torch.nn.functional, maybe_gather_lm_head_ctx=lambda *_: contextlib.nullcontext())
    exec(source, names)
    return names["_chunked_cross_entropy_loss"]


def patch(model, loss):
    """Lets the model compute its loss as TRL does."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    head = inner.get_output_embeddings()

    def forward(self, input_ids=None, labels=None, **_):
        outputs = self.base_model(input_ids=input_ids, use_cache=False)
        return CausalLMOutputWithPast(loss=loss(outputs.last_hidden_state, head.weight, 256, labels=labels)[0])

    inner.forward = types.MethodType(forward, inner)


def main():
    loss = chunked_loss(sys.argv[1])
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(KEYS + FIGURES)
    for case in CASES:
        case = DEFAULTS | dict(model="smollm2-135m", num_hidden_layers=2) | case
        row = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in KEYS]
        with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
            model, _ = build(case)
            patch(model, loss)
            trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
            optimizer = torch.optim.AdamW(trainable, foreach=False)
            ids = torch.randint(0, 100, (case["batch"], case["len"]))
            table.writerow(row + second_step(model, optimizer, ids, ids, Live(), case["autocast"]))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
