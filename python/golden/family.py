"""What the golden numbers of every family share: checkpoints, adapters, gradients, and the files they are written to."""
import json
import math
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file

STEPS = 20
LENGTHS = [[12, 7, 10], [5, 12, 9], [11, 11, 2], [12, 12, 12]]


class Family:
    """Models of one kind in a folder. A subclass gives `auto` (transformers' class), `task` (PEFT's name of it), `models`
    (name: `config`, `rank`, `alpha` and what else it needs), `sampled` (the micro-batch whose logits and gradients are kept),
    `runs` (name: arguments of `run`) and the functions that raise NotImplementedError here. Models of a family that is built
    on another's have `base`, that one's name of the checkpoint."""

    adapter_part = "lora_"  # in the names of what an adapter trains
    recorded = ["losses", "gradient_norms", "learning_rates"]
    optimizer = torch.optim.AdamW  # betas .9 and .999, eps 1e-8
    attention = "sdpa"
    learning_rate = 2e-3

    def __init__(self, folder):
        self.folder = folder

    def start_value(self, name, shape, generator):
        """A weight's random value; larger than a model begins with, so that every part matters to the loss."""
        raise NotImplementedError

    def make_batches(self, vocab, generator):
        """Four micro-batches of rows of LENGTHS, padded on the right with 0."""
        raise NotImplementedError

    def labels(self, batch, ids, mask):
        """The labels that the model is given."""
        raise NotImplementedError

    def weigh(self, model, batch, taken):
        """The loss of a micro-batch, as its share of the loss of the step's micro-batches `taken`."""
        raise NotImplementedError

    def save(self, model, folder, spec):
        """Saves a checkpoint."""
        model.save_pretrained(folder)

    def load(self, name, dtype=torch.float32, adapter=True, **loading):
        """A model in training mode, with its adapter if there is to be one."""
        folder = self.folder / self.checkpoint(name)
        model = self.auto.from_pretrained(folder, dtype=dtype, attn_implementation=self.attention, **loading)
        model.config.use_cache = False
        return self.adapted(model, name) if adapter else model.train()

    def checkpoint(self, name):
        """The folder of a model's checkpoint."""
        return self.models[name].get("base", name)

    def adapter(self, name):
        """The folder of a model's adapter."""
        return f"{name}_adapter"

    def adapted(self, model, name):
        return PeftModel.from_pretrained(model, self.folder / self.adapter(name), is_trainable=True).train()

    def make_checkpoint(self, name, spec, generator):
        model = self.auto.from_config(spec["config"], dtype=torch.float32)
        with torch.no_grad():
            for key, weight in model.named_parameters():
                weight.copy_(self.start_value(key, weight.shape, generator))
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self.save(model, self.folder / name, spec)

    def adapter_config(self, spec, **settings):
        targets = spec.get("targets", "all-linear")
        return LoraConfig(r=spec["rank"], lora_alpha=spec["alpha"], target_modules=targets, task_type=self.task, **settings)

    def adapter_value(self, weight, generator):
        """A random value of an adapter's weight; B is not zero, or A would have no gradient."""
        return torch.randn(weight.shape, generator=generator) * (0.3 / math.sqrt(weight.shape[1]))

    def make_adapter(self, name, spec, generator):
        base = self.checkpoint(name)
        model = get_peft_model(self.auto.from_pretrained(self.folder / base, dtype=torch.float32), self.adapter_config(spec))
        with torch.no_grad():
            for key, weight in model.named_parameters():
                if self.adapter_part in key:
                    weight.copy_(self.adapter_value(weight, generator))
        folder = self.folder / self.adapter(name)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "README.md").unlink()
        path = folder / "adapter_config.json"
        settings = json.loads(path.read_text())
        settings["base_model_name_or_path"] = base
        if isinstance(settings.get("target_modules"), list):
            settings["target_modules"] = sorted(settings["target_modules"])
        path.write_text(json.dumps(settings, indent=2))

    def inputs(self, batch):
        ids = torch.tensor(batch["ids"])
        mask = torch.arange(ids.shape[1]) < torch.tensor(batch["lengths"])[:, None]
        return dict(input_ids=ids, attention_mask=mask.long(), labels=self.labels(batch, ids, mask))

    def sample(self, model, batch, prefix=""):
        """The loss of one micro-batch, and its logits and gradients by the names they are kept under."""
        out = model(**self.inputs(batch))
        out.loss.backward()
        gradients = {f"{prefix}gradient.{key}": weight.grad for key, weight in trainable(model).items()}
        return out.loss.item(), {f"{prefix}logits": out.logits.detach(), **gradients}

    def run(self, name, batches, **how):
        """The figures of a golden run; `how` is what `load` and `train` take."""
        loading = {key: how.pop(key) for key in ("dtype", "adapter", "quantized") if key in how}
        return self.train(self.load(name, **loading), batches, **how)

    def make_optimizer(self, model, weight_decay):
        return self.optimizer(list(trainable(model).values()), lr=self.learning_rate, weight_decay=weight_decay)

    def train(self, model, batches, scheduler=None, weight_decay=0.0, max_grad_norm=0.0, accumulate=False):
        """Losses (before each step's update), gradient norms and learning rates. A step takes the next micro-batch in turn,
        or with `accumulate` all of them."""
        weights = list(trainable(model).values())
        optimizer = self.make_optimizer(model, weight_decay)
        schedule = scheduler and scheduler(optimizer, math.ceil(0.1 * STEPS), STEPS)
        losses, norms, rates = [], [], []
        for step in range(STEPS):
            taken = batches if accumulate else [batches[step % len(batches)]]
            total = 0.0
            for batch in taken:
                loss = self.weigh(model, batch, taken)
                loss.backward()
                total += loss.item()
            losses.append(total)
            norms.append(torch.nn.utils.clip_grad_norm_(weights, max_grad_norm or math.inf).item())
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if schedule:
                schedule.step()
            optimizer.zero_grad()
        figures = dict(losses=losses, gradient_norms=norms, learning_rates=rates)
        return {key: figures[key] for key in self.recorded}

    def make(self, name, spec, generator):
        """Writes a model's checkpoint, adapter and tensors, and gives its entry of the family's file."""
        self.make_checkpoint(name, spec, generator)
        self.make_adapter(name, spec, generator)
        batches = self.make_batches(spec["config"].vocab_size, generator)
        loss, tensors = self.sample(self.load(name), batches[self.sampled])
        full_loss, full = self.sample(self.load(name, adapter=False), batches[self.sampled], "full.")
        self.save_tensors(name, tensors | full)
        return dict(batches=batches, loss=loss, full_loss=full_loss, runs=self.make_runs(name, batches))

    def make_runs(self, name, batches):
        return {run: self.run(name, batches, **how) for run, how in self.runs.items()}

    def save_tensors(self, name, tensors):
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, self.folder / f"{name}.safetensors")


def write(path, families, modules):
    """Writes the files of the families' models, and `path` with their runs and the modules' versions."""
    versions = {module.__name__: module.__version__ for module in modules}
    golden = dict(versions=versions, learning_rate=families[0].learning_rate, models={})
    for family in families:
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0)
        for name, spec in family.models.items():
            golden["models"][name] = family.make(name, spec, generator)
    path.write_text(json.dumps(golden, indent=1))


def trainable(model):
    """The trained weights, by the names that PEFT saves."""
    names = {"base_model.model.": "", "_vector.default.weight": "_vector", ".default": "", ".modules_to_save": "", ".base_layer": ""}
    named = {}
    for key, weight in model.named_parameters():
        if weight.requires_grad:
            for part, other in names.items():
                key = key.replace(part, other)
            named[key] = weight
    return named
