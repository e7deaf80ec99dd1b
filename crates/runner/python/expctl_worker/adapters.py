"""What is trained: adapters as PEFT makes them, or weights of the model."""
import pathlib


def adapt(model, cell, inputs):
    """The model with its adapters, or with the weights marked that are trained."""
    if not cell["rank"]:
        trained = inputs.trained and set(inputs.trained)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trained is None or name in trained)
        return model
    import peft
    import torch

    folder = pathlib.Path(inputs.adapter)
    config = peft.PeftConfig.from_pretrained(folder)
    config.inference_mode = False
    more = {"autocast_adapter_dtype": cell["adapter_dtype"] == "float32"}
    model = peft.get_peft_model(model, config, **more)
    dtype = getattr(torch, cell["adapter_dtype"])
    for parameter in model.parameters():
        if parameter.requires_grad and cell["adapter_dtype"] != "float32":
            parameter.data = parameter.data.to(dtype)
    start(model, folder, inputs.start)
    if cell["lora_fa"] == "frozen":
        for name, parameter in model.named_parameters():
            if "lora_A" in name:
                parameter.requires_grad_(False)
    return model


def start(model, folder, names):
    """Lets the adapters begin where those of expctl's own trainer do. What follows from the weights is PEFT's."""
    import peft
    from safetensors import safe_open

    with safe_open(folder / "adapter_model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if name in names}
    if not tensors:
        return
    # PEFT asks for all that it saves, what the weights decide included.
    own = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    found = peft.set_peft_model_state_dict(model, own | tensors)
    # Virtual tokens are set apart from the model's state.
    unknown = set(getattr(found, "unexpected_keys", [])) - {"prompt_embeddings"}
    if unknown:
        raise RuntimeError(f"the model has no {sorted(unknown)[:3]}")


def save(model, cell, folder):
    """Writes the adapter in PEFT's format. Returns the bytes of its weights' file, None without adapters."""
    if not cell["rank"]:
        return None
    model.save_pretrained(folder / "adapter", save_embedding_layers=False)
    return (folder / "adapter" / "adapter_model.safetensors").stat().st_size
