"""Golden numbers of heads with an adapter: `golden_head.json`, and adapters of other families' checkpoints. Called by make.py,
after those. PEFT saves both tables beside such an adapter."""
import bitsandbytes
import peft
import torch
import transformers

import family
from decoders import Decoders
from dora import Dora
from gemma import Gemma2
from ia3 import Ia3
from loha import Loha
from lora import Options

BOTH = ["q_proj", "lm_head"]


class HeadLora(Options, Decoders):
    """A tied head; and one with a weight of its own, below which nothing is trained."""

    models = {
        "tiny_llama_head": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", targets=BOTH, settings={}, cell=dict(target_modules=BOTH), runs=["float32", "bfloat16", "int4"]),
        "tiny_llama3_head": Decoders.models["tiny_llama3"] | dict(
            base="tiny_llama3", targets=["lm_head"], settings={}, cell=dict(target_modules=["lm_head"]), runs=["float32"]),
    }


class HeadGemma(Options, Gemma2):
    """The logits are capped, and the tied embedding is scaled."""

    models = {
        "tiny_gemma2_head": Gemma2.models["tiny_gemma2"] | dict(
            base="tiny_gemma2", targets=BOTH, settings={}, cell=dict(target_modules=BOTH), runs=["float32"]),
    }


class HeadDora(Dora, Decoders):
    runs = dict(float32={})
    models = {"tiny_llama_head_dora": Decoders.models["tiny_llama"] | dict(base="tiny_llama", targets=BOTH, initial=[])}


class HeadLoha(Loha, Decoders):
    models = {
        "tiny_llama_head_loha": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(r=2, alpha=3, target_modules=BOTH), cell=dict(target_modules=BOTH), runs=["float32"]),
    }


class HeadIa3(Ia3, Decoders):
    """Once as outputs, and once as the head's inputs."""

    models = {
        "tiny_llama_head_ia3": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(target_modules=BOTH, feedforward_modules=["q_proj"]),
            cell=dict(target_modules=BOTH, ia3=dict(feedforward_modules=["q_proj"])), runs=["float32"]),
        "tiny_llama_head_ia3_inputs": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(target_modules=BOTH, feedforward_modules=["lm_head"]),
            cell=dict(target_modules=BOTH, ia3=dict(feedforward_modules=["lm_head"])), runs=["float32"]),
    }


def write(folder):
    families = [which(folder) for which in (HeadLora, HeadGemma, HeadDora, HeadLoha, HeadIa3)]
    family.write(folder / "golden_head.json", families, [torch, transformers, peft, bitsandbytes])
