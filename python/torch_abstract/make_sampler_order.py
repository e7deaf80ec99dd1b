"""The samples of each micro-batch that transformers' Trainer trains with, by seed, also with group_by_length; and longer
permutations of torch.

Used with torch 2.15.0, transformers 5.23.0 and accelerate 1.15.0:

    python python/torch_abstract/make_sampler_order.py > tests/fixtures/torch_abstract/sampler_order.json
"""

import contextlib
import json
import sys
import tempfile

import torch
from transformers import Trainer, TrainingArguments

# Samples, batch size, accumulation, seed, epochs; steps, if they decide.
RUNS = [
    (10, 3, 2, 42, 2, None),
    (10, 3, 2, 0, 1.3, None),
    (7, 2, 1, 3407, 3, None),
    (11, 4, 3, 1, None, 5),
    (5, 8, 4, 2**32 + 5, 2, None),
]
# The same with samples of so many tokens, grouped by length; always some epochs.
GROUPED = [
    ([5, 9, 1, 7, 3, 8, 10, 2, 6, 4, 9, 9, 3], 2, 1, 42, 3),
    ([5, 9, 1, 7, 3, 8, 10, 2, 6, 4, 9, 9, 3], 2, 2, 0, 2),
    ([3, 1, 2], 2, 2, 7, 2),
    ([1 + index * 37 % 101 for index in range(211)], 1, 1, 3407, 1.5),
]
PERMUTATIONS = [(1000, 42), (100_000, 0), (5, 2**33 + 9)]


class Numbers(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"sample": index}


class Texts(torch.utils.data.Dataset):
    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return {"input_ids": [index] * self.lengths[index]}


def first_ids(samples):
    return {"sample": torch.tensor([sample["input_ids"][0] for sample in samples])}


class Recorder(torch.nn.Module):
    """Keeps what it is trained with. If it draws random numbers, as dropout on the CPU does, these must not matter."""

    def __init__(self, draws):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1))
        self.draws = draws
        self.micro_batches = []

    def forward(self, sample):
        self.micro_batches.append(sample.tolist())
        return {"loss": (self.weight * (torch.rand(1) if self.draws else 1)).sum()}


def trained(samples, batch_size, accumulation, seed, epochs, steps, lengths=None):
    arguments = {"num_train_epochs": epochs} if epochs else {"max_steps": steps}
    if lengths:
        arguments["train_sampling_strategy"] = "group_by_length"
    # numpy takes 32 bits of a seed, and so does the generator.
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            seed=seed % 2**32,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            **arguments,
        )
        # The grouped order comes from the generator that dropout takes numbers from on the CPU, but not on a GPU.
        model = Recorder(draws=not lengths)
        dataset, collator = (Texts(lengths), first_ids) if lengths else (Numbers(samples), None)
        trainer = Trainer(model, arguments, train_dataset=dataset, data_collator=collator)
        with contextlib.redirect_stdout(sys.stderr):
            trainer.train()
    return {
        "samples": samples,
        "batch_size": batch_size,
        "accumulation": accumulation,
        "seed": seed,
        "epochs": epochs,
        "max_steps": steps,
        **({"lengths": lengths} if lengths else {}),
        "steps": trainer.state.global_step,
        "micro_batches": model.micro_batches,
    }


def permutation(count, seed):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    # A sum that depends on the order.
    weighted = int((order * torch.arange(1, count + 1)).sum())
    return {"count": count, "seed": seed, "first": order[:8].tolist(), "last": order[-8:].tolist(), "weighted": weighted}


def main():
    runs = [json.dumps(trained(*run)) for run in RUNS]
    grouped = [json.dumps(trained(len(lengths), *run, None, lengths)) for lengths, *run in GROUPED]
    permutations = [json.dumps(permutation(*of)) for of in PERMUTATIONS]
    parts = {"runs": runs, "grouped": grouped, "permutations": permutations}
    parts = [f'"{name}": [\n' + ",\n".join(rows) + "\n]" for name, rows in parts.items()]
    print("{" + ", ".join(parts) + "}")


if __name__ == "__main__":
    main()
