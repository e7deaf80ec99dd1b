"""Loads an adapter that expctl wrote in PEFT, and compares it with the checkpoint of `expctl merge`.

    python python/real_input/check_merged.py BASE_DIR ADAPTER_DIR MERGED_DIR [--tolerance 1e-4]

Prints the largest differences of logits, relative to the largest logit: of MERGED_DIR in transformers, and of PEFT's
merge_and_unload, from those of the adapter in PEFT. Exit code 1 where one is above the tolerance, or the adapter does nothing.
"""
import argparse
import sys

import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("base")
parser.add_argument("adapter")
parser.add_argument("merged")
parser.add_argument("--tolerance", type=float, default=1e-4)
options = parser.parse_args()

config = AutoConfig.from_pretrained(options.merged)
is_classifier = config.model_type in ["bert", "distilbert"]
auto = AutoModelForSequenceClassification if is_classifier else AutoModelForCausalLM
labels = dict(num_labels=config.num_labels) if is_classifier else {}
ids = torch.arange(1, 13).repeat(2, 1)
ids[1] = ids[1].flip(0)


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits.float()


def load(folder):
    return auto.from_pretrained(folder, dtype=torch.float32, **labels)


without = logits(load(options.base))
model = PeftModel.from_pretrained(load(options.base), options.adapter)
theirs = logits(model)
scale = theirs.abs().max().item()
differences = {
    "the merged checkpoint": logits(load(options.merged)),
    "PEFT's merge_and_unload": logits(model.merge_and_unload()),
}
moved = (theirs - without).abs().max().item() / scale
print(f"largest logit {scale:.4f}; the adapter moves them by {moved:.2e} of it")
wrong = moved == 0.0
for name, found in differences.items():
    difference = (found - theirs).abs().max().item() / scale
    print(f"{name}: {difference:.2e}")
    wrong |= difference > options.tolerance
sys.exit(wrong)
