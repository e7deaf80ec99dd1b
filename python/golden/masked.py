"""Loss and gradients of tiny_llama where only some tokens are predicted: `golden_masked.json`, `tiny_llama_masked.safetensors`.

    python python/golden/masked.py

The labels of all other tokens are -100, as TRL's collator writes them. It needs the checkpoint, the adapter and the batches that
make.py wrote, and was run with torch 2.15.0, transformers 5.23.0 and peft 0.21.2.
"""
import json
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
# Of each row: one completion, two turns that touch neither end, and the last token alone.
TARGETS = [[[4, 12]], [[1, 3], [5, 6]], [[9, 10]]]

batch = json.loads((FIXTURES / "golden.json").read_text())["models"]["tiny_llama"]["batches"][0]
ids = torch.tensor(batch["ids"])
labels = torch.full_like(ids, -100)
for row, ranges in enumerate(TARGETS):
    for start, end in ranges:
        assert end <= batch["lengths"][row]
        labels[row, start:end] = ids[row, start:end]
mask = (torch.arange(ids.shape[1]) < torch.tensor(batch["lengths"])[:, None]).long()

figures, tensors = {}, {}
for prefix, has_adapter in [("", True), ("full.", False)]:
    model = AutoModelForCausalLM.from_pretrained(FIXTURES / "tiny_llama", dtype=torch.float32)
    if has_adapter:
        model = PeftModel.from_pretrained(model, FIXTURES / "tiny_llama_adapter", is_trainable=True)
    loss = model.train()(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    figures[f"{prefix}loss"] = loss.item()
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            name = name.removeprefix("base_model.model.").replace(".default", "")
            tensors[f"{prefix}gradient.{name}"] = weight.grad
save_file(tensors, FIXTURES / "tiny_llama_masked.safetensors")
(FIXTURES / "golden_masked.json").write_text(json.dumps(dict(targets=TARGETS, **figures), indent=1) + "\n")
