"""The optimizer of a cell, by the names that transformers has for it."""
import torch


def make(model, cell):
    """The optimizer of what is trained."""
    # With `lora_fa: optimizer`, LoRA's A has gradients and is not stepped.
    is_left_out = lambda name: cell["rank"] and cell["lora_fa"] == "optimizer" and "lora_A" in name
    named = model.named_parameters()
    name, trained = cell["optim"], [parameter for name, parameter in named if parameter.requires_grad and not is_left_out(name)]
    kind, options = kind_of(name, cell)
    if "8bit" in name and cell["torch"]["embedding_states_32bit"] is not False:
        keep_embeddings(model)
    ratio = (cell.get("lora") or {}).get("loraplus_lr_ratio") if cell["rank"] else None
    if ratio and ratio != 1:
        from peft.optimizers import create_loraplus_optimizer
        return create_loraplus_optimizer(model, kind, loraplus_lr_ratio=ratio, loraplus_weight_decay=cell["weight_decay"], **options)
    return kind(trained, **options)


def kind_of(name, cell):
    """The class and its options."""
    options = {"lr": cell["learning_rate"], "weight_decay": cell["weight_decay"]}
    betas = (cell["adam_beta1"], cell["adam_beta2"])
    adam = options | {"betas": betas, "eps": cell["adam_epsilon"]}
    if name == "adamw":
        return torch.optim.AdamW, adam
    if name == "adamw_torch_fused":
        return torch.optim.AdamW, adam | {"fused": True}
    if name == "sgd":
        return torch.optim.SGD, options
    if name == "adamw_hf":
        from transformers.optimization import AdamW
        return AdamW, adam | {"no_deprecation_warning": True}
    if name == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor, options | {"scale_parameter": False, "relative_step": False}
    import bitsandbytes

    more = {"optim_bits": 8 if "8bit" in name else 32, "is_paged": name.startswith("paged_")}
    if "lion" in name:
        return bitsandbytes.optim.Lion, options | {"betas": betas} | more
    return bitsandbytes.optim.AdamW, adam | more


def keep_embeddings(model):
    """Has bitsandbytes keep states of 32 bits for embeddings, as transformers' Trainer asks for it."""
    import bitsandbytes

    manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})


class Rates:
    """The learning rate of each step, for groups with a rate of their own, too."""

    def __init__(self, optimizer, cell, rates):
        peak = cell["learning_rate"]
        self.groups = [(group, group["lr"] / peak if peak else 1.0) for group in optimizer.param_groups]
        self.rates = rates

    def set(self, step):
        """Sets the rate of a step from 0, and returns it."""
        for group, ratio in self.groups:
            group["lr"] = self.rates[step] * ratio
        return self.rates[step]
