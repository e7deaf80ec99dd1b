"""Golden numbers of LoRA's options: `golden_lora.json`, and adapters of tiny_llama. Called by make.py, after decoders.py."""
import bitsandbytes
import peft
import torch
import transformers
from peft.optimizers import create_loraplus_optimizer

import family
from decoders import Decoders
from encoders import Encoders
from family import trainable
from qwen2 import Qwen2


class Options:
    """Each model has `settings` of LoraConfig, and `cell`, keys of a spec that an adapter's configuration does not have."""

    def adapter_config(self, spec):
        return super().adapter_config(spec, **spec["settings"])

    def adapter_value(self, weight, generator):
        value = super().adapter_value(weight, generator)
        return weight + 0.2 * value if weight.ne(0).all() and self.keeps_start else value

    def adapted(self, model, name):
        model = super().adapted(model, name)
        if self.models[name]["cell"].get("lora_fa"):
            for key, weight in model.named_parameters():
                weight.requires_grad_(weight.requires_grad and "lora_A" not in key)
        self.ratio = self.models[name]["cell"].get("lora", {}).get("loraplus_lr_ratio")
        return model

    def make_optimizer(self, model, weight_decay):
        if self.ratio is None:
            return super().make_optimizer(model, weight_decay)
        return create_loraplus_optimizer(
            model, self.optimizer, lr=self.learning_rate, loraplus_lr_ratio=self.ratio, loraplus_weight_decay=weight_decay)

    def make(self, name, spec, generator):
        """Also the trained values after the float32 run."""
        self.keeps_start = spec["settings"].get("init_lora_weights") in ["pissa", "olora"]
        self.make_adapter(name, spec, generator)
        batches = self.make_batches(spec["config"].vocab_size, generator)
        loss, tensors = self.sample(self.load(name), batches[self.sampled])
        model = self.load(name)
        self.train(model, batches)
        tensors |= {f"trained.{key}": weight.detach() for key, weight in trainable(model).items()}
        self.save_tensors(name, tensors)
        runs = {run: self.run(name, batches, **self.runs[run]) for run in spec["runs"]}
        return dict(base=spec["base"], cell=spec["cell"], batches=batches, loss=loss, runs=runs)


class LoraDecoders(Options, Decoders):
    models = {
        name: Decoders.models["tiny_llama"] | dict(base="tiny_llama", cell={}, runs=["float32"]) | spec
        for name, spec in {
            "tiny_llama_rslora": dict(settings=dict(use_rslora=True, init_lora_weights="gaussian")),
            # Layers that share an input have other ranks, and other scales.
            "tiny_llama_patterns": dict(settings=dict(
                rank_pattern={"q_proj": 2, r"layers\.0\.mlp\..*": 7, "model.layers.1.self_attn.v_proj": 1},
                alpha_pattern={"[kv]_proj": 3.0, "layers.1.mlp.up_proj": 1.5})),
            "tiny_llama_lora_fa": dict(settings={}, cell=dict(lora_fa="frozen")),
            "tiny_llama_loraplus": dict(
                settings={}, cell=dict(lora=dict(loraplus_lr_ratio=16.0)), runs=["float32", "linear"]),
            # Their factors are those that PEFT begins with, moved a little.
            "tiny_llama_pissa": dict(settings=dict(init_lora_weights="pissa"), runs=["float32", "bfloat16"]),
            "tiny_llama_olora": dict(settings=dict(init_lora_weights="olora"), runs=["float32", "bfloat16", "int4"]),
            "tiny_llama_pattern": dict(targets=r".*\.(0\.self_attn\.[qv]|1\.mlp\.(up|down))_proj", settings={}),
            "tiny_llama_layers": dict(
                targets=["q_proj", "o_proj", "down_proj"], settings=dict(layers_to_transform=[1]),
                cell=dict(target_modules=["q_proj", "o_proj", "down_proj"], layers_to_transform=[1])),
            # The embedding is tied to the head, and the trained copy of one is not.
            "tiny_llama_save": dict(
                targets=["q_proj", "up_proj"], settings=dict(modules_to_save=["embed_tokens", "input_layernorm"]),
                cell=dict(target_modules=["q_proj", "up_proj"], modules_to_save=["embed_tokens", "input_layernorm"])),
            "tiny_llama_save_head": dict(
                settings=dict(modules_to_save=["lm_head", "mlp"]), cell=dict(modules_to_save=["lm_head", "mlp"])),
        }.items()
    }


class LoraQwen2(LoraDecoders):
    """Biases that are trained with adapters: all of them, and those of layers that have one."""

    models = {
        name: Qwen2.models["tiny_qwen2"] | dict(base="tiny_qwen2", runs=["float32"]) | spec
        for name, spec in {
            "tiny_qwen2_bias_all": dict(settings=dict(bias="all"), cell={}),
            "tiny_qwen2_bias_lora_only": dict(
                targets=["q_proj", "o_proj"], settings=dict(bias="lora_only"), cell=dict(target_modules=["q_proj", "o_proj"])),
            "tiny_qwen2_bias_some": dict(
                targets=["q_proj"], settings=dict(bias="all", layers_to_transform=[1]),
                cell=dict(target_modules=["q_proj"], layers_to_transform=[1])),
        }.items()
    }


class LoraBert(Options, Encoders):
    """Norms that are trained whole beside adapters, as the classifier is."""

    models = {
        "tiny_bert_save": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", runs=["float32"], targets=["query", "value"],
            settings=dict(modules_to_save=["attention.output.LayerNorm"]),
            cell=dict(target_modules=["query", "value"], modules_to_save=["attention.output.LayerNorm"])),
    }


def write(folder):
    families = [LoraDecoders(folder), LoraQwen2(folder), LoraBert(folder)]
    family.write(folder / "golden_lora.json", families, [torch, transformers, peft, bitsandbytes])
