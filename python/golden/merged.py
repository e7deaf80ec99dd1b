"""Weights that PEFT merged adapters into: `merged.safetensors`. Called by make.py, after the adapters' scripts."""
import pathlib

import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

DECODERS = {
    "tiny_llama": [
        "", "_rslora", "_patterns", "_pissa", "_olora", "_layers", "_save", "_save_head", "_dora", "_ia3", "_ia3_inputs", "_miss",
        "_miss_odd", "_miss_mini", "_vera", "_ln", "_oft", "_oft_exact", "_oft_share", "_loha", "_loha_patterns", "_lokr",
        "_lokr_both", "_lokr_factor",
    ],
    "tiny_qwen2": ["_bias_some", "_ia3"],
    "tiny_phi3": [""],
    "tiny_gemma3": ["_ln"],
}
ENCODERS = {"tiny_bert": ["", "_ia3", "_miss", "_vera", "_oft", "_loha", "_lokr"], "tiny_distilbert": [""]}
ROWS = 3


def merged(folder: pathlib.Path, base, adapter, auto, **settings):
    """The first and the last rows of each weight that PEFT's merging changes, by the adapter's name and the weight's."""
    load = lambda: auto.from_pretrained(folder / base, dtype=torch.float32, **settings)
    before = {name: weight.detach().clone() for name, weight in load().named_parameters(remove_duplicate=False)}
    model = PeftModel.from_pretrained(load(), folder / f"{adapter}_adapter").merge_and_unload()
    changed = {
        f"{adapter}/{name}": torch.cat([weight[:ROWS], weight[-ROWS:]]).detach().clone()
        for name, weight in model.named_parameters(remove_duplicate=False)
        if not weight.equal(before[name])
    }
    assert changed, adapter
    return changed


def write(folder):
    tensors = {}
    for base, adapters in DECODERS.items():
        for adapter in adapters:
            tensors |= merged(folder, base, base + adapter, AutoModelForCausalLM)
    for base, adapters in ENCODERS.items():
        for adapter in adapters:
            tensors |= merged(folder, base, base + adapter, AutoModelForSequenceClassification, num_labels=3)
    save_file(tensors, folder / "merged.safetensors")
