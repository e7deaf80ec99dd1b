"""What a training does beside its steps: held-out samples, generated text, files."""
import shutil, tempfile

import torch

from . import adapters
from .inputs import tensors
from .protocol import say


def evaluate(loop, inputs):
    """The loss on held-out samples, and the share whose label is the likeliest."""
    total, counted, right = 0.0, 0, 0
    loop.wrapped.eval()
    for index, micro in enumerate(inputs.held_out_batches()):
        if index == 0 and not loop.ranks.rank:
            say("evaluating")
        with torch.no_grad(), loop.autocast():
            batch = tensors(micro, loop.meter.device, inputs.cell)
            outputs = loop.wrapped(**batch)
        total += outputs.loss.item() * micro["counted"]
        counted += micro["counted"]
        if micro["labels"]:
            right += (outputs.logits.argmax(-1) == batch["labels"]).sum().item()
    if not counted:
        return {}
    labelled = inputs.cell["task"] == "sequence_classification"
    return {"loss_eval": total / counted, "accuracy_eval": right / counted if labelled else None}


def generate(trained, options, device, seed):
    """Text of random prompts, in evaluation mode."""
    size = (options["batch_size"], options["prompt_tokens"])
    prompts = torch.randint(3, trained.config.vocab_size, size, generator=torch.Generator().manual_seed(seed)).to(device)
    count = options["max_new_tokens"]
    trained.eval()
    with torch.no_grad():
        trained.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=count, min_new_tokens=count,
                         do_sample=False, use_cache=True)
    trained.train()


def save_checkpoint(trained):
    """Saves the model as a Trainer does between steps; the files go at once."""
    folder = tempfile.mkdtemp(prefix="checkpoint-")
    try:
        trained.save_pretrained(folder)
    finally:
        shutil.rmtree(folder)


def save(trained, cell, given):
    """The files that stay: the model if it is asked for, and the adapter. Returns the bytes of the adapter's."""
    if given.save_model:
        trained.save_pretrained(given.base_dir / given.save_model)
    return adapters.save(trained, cell, given.folder)
