"""What PEFT trains and saves of modules_to_save, and of some methods: trained numbers, and bytes of `adapter_model.safetensors`.

    python python/torch_abstract/count_saved.py

tests/plan/methods.rs has the figures. Used with torch 2.15.0, transformers 5.23.0 and peft 0.21.2.
"""

import pathlib
import tempfile

import peft
import torch
import transformers
from presets import preset

NAMES = [["embed_tokens"], ["embed_tokens", "lm_head"], ["mlp", "model.norm"], ["q_proj"]]
TARGETS = ["q_proj", "v_proj"]


def configurations():
    """PEFT's configurations."""
    for names in NAMES:
        yield peft.LoraConfig(r=8, target_modules=TARGETS, modules_to_save=names)
    yield peft.OFTConfig(oft_block_size=32, target_modules="all-linear")
    yield peft.OFTConfig(oft_block_size=100, target_modules=TARGETS)
    yield peft.OFTConfig(oft_block_size=0, r=10, target_modules=TARGETS)
    yield peft.OFTConfig(oft_block_size=64, block_share=True, target_modules="all-linear")
    yield peft.LoHaConfig(r=8, target_modules="all-linear")
    yield peft.LoKrConfig(r=8, target_modules="all-linear")
    yield peft.LoKrConfig(r=8, decompose_both=True, target_modules="all-linear")
    yield peft.LoKrConfig(r=64, target_modules=TARGETS)
    yield peft.LoKrConfig(r=4, decompose_both=True, decompose_factor=16, target_modules=TARGETS)


def main():
    family, keys = preset("smollm2-135m")
    config = getattr(transformers, family + "Config")(**keys | dict(num_hidden_layers=3))
    for adapter in configurations():
        adapter.task_type = "CAUSAL_LM"
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model = peft.get_peft_model(model, adapter)
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            size = (pathlib.Path(folder) / "adapter_model.safetensors").stat().st_size
            print(adapter.peft_type.value, adapter.modules_to_save, trained, size)


if __name__ == "__main__":
    main()
