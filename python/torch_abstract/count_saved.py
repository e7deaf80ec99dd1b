"""What PEFT trains and saves of modules_to_save: trained numbers, and bytes of `adapter_model.safetensors`.

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


def main():
    family, keys = preset("smollm2-135m")
    config = getattr(transformers, family + "Config")(**keys | dict(num_hidden_layers=3))
    for names in NAMES:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        lora = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], modules_to_save=names, task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, lora)
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            print(names, trained, (pathlib.Path(folder) / "adapter_model.safetensors").stat().st_size)


if __name__ == "__main__":
    main()
