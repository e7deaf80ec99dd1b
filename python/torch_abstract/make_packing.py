"""The micro-batches of packed samples that TRL's SFTTrainer trains with, by the lengths of their samples.

Used with torch 2.15.0, transformers 5.23.0, accelerate 1.15.0, trl 1.16.0 and datasets 5.2.0:

    python python/torch_abstract/make_packing.py > tests/fixtures/torch_abstract/packing.json

Each micro-batch is written as its rows, their length, and the samples that are kept apart in it (0 if none are).
"""

import contextlib
import json
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

MIXED = [1 + index * 37 % 50 for index in range(40)]
# More samples than are packed at a time.
MANY = [2 + index * 29 % 61 for index in range(1203)]
# Strategy, lengths of samples, length of a row, batch size, accumulation, seed, epochs, grouped by length.
RUNS = [
    ("bfd", MIXED, 64, 2, 2, 42, 2, False),
    ("bfd", MIXED, 24, 3, 1, 0, 1, False),
    ("bfd", MANY, 128, 4, 1, 7, 1, False),
    ("bfd", MIXED, 64, 2, 1, 3, 2, True),
    ("wrapped", MIXED, 64, 2, 2, 42, 2, False),
    ("wrapped", MANY, 100, 4, 1, 7, 1, False),
]


class Recorder(SFTTrainer):
    """Keeps the shapes that it trains with."""

    def compute_loss(self, model, inputs, *arguments, **options):
        rows, length = inputs["input_ids"].shape
        starts = inputs.get("cu_seq_lens_q")
        self.micro_batches.append([rows, length, 0 if starts is None else len(starts) - 1])
        return super().compute_loss(model, inputs, *arguments, **options)


def trained(strategy, lengths, row, batch_size, accumulation, seed, epochs, grouped):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file("crates/data/embedded/tokenizer.json"), eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SFTConfig(
            folder,
            packing=True,
            packing_strategy=strategy,
            max_length=row,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            seed=seed,
            num_train_epochs=epochs,
            train_sampling_strategy="group_by_length" if grouped else "random",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        # Ids of samples differ from each other and from the padding.
        samples = Dataset.from_dict({"input_ids": [[10 + index % 100] * length for index, length in enumerate(lengths)]})
        with contextlib.redirect_stdout(sys.stderr):
            trainer = Recorder(model, arguments, train_dataset=samples, processing_class=tokenizer)
            trainer.micro_batches = []
            trainer.train()
    return {
        "strategy": strategy,
        "lengths": lengths,
        "row": row,
        "batch_size": batch_size,
        "accumulation": accumulation,
        "seed": seed,
        "epochs": epochs,
        "grouped": grouped,
        "steps": trainer.state.global_step,
        "micro_batches": trainer.micro_batches,
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    print('{"runs": [\n' + ",\n".join(json.dumps(trained(*run)) for run in RUNS) + "\n]}")
