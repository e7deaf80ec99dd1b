"""The training loop: a script's, whose variables live as the cell's keys say."""
import contextlib, math, time

import torch

from . import between, machine, memory, optimizer
from .inputs import tensors


class Loop:
    """A model, its optimizer, and what a script keeps from one micro-batch to the next."""

    def __init__(self, trained_model, cell, inputs, meter, processes):
        self.model, self.cell, self.meter, self.ranks = trained_model, cell, meter, processes
        self.trainable_count = sum(parameter.numel() for parameter in trained_model.parameters() if parameter.requires_grad)
        self.wrapped = processes.wrap(trained_model)
        if cell["torch"]["compile"]:
            self.wrapped.compile()
        self.optimizer = optimizer.make(self.wrapped, cell)
        self.rates = optimizer.Rates(self.optimizer, cell, inputs.learning_rates)
        self.trained = [parameter for parameter in self.wrapped.parameters() if parameter.requires_grad]
        self.precision = None if cell["autocast"] == "none" else getattr(torch, cell["autocast"])
        scales = cell["loss_scaling"] == "dynamic"
        self.scaler = torch.amp.GradScaler(meter.device.type) if scales else None
        self.outputs = self.given = None
        self.skipped = 0

    def try_out(self, batches):
        """Steps of which no figure is taken."""
        for batch in batches:
            self.step(batch)
            self.release()
            # The passes once more, beside the optimizer's state.
            for micro in batch["micro"]:
                self.micro_batch(micro, batch["counted"], is_last=True)
            self.release()

    def autocast(self):
        return torch.autocast(self.meter.device.type, dtype=self.precision) if self.precision else contextlib.nullcontext()

    def whole_step(self, steps, number, batch):
        """A step with its record. Returns its peak."""
        begun, scale, allowed = time.perf_counter(), self.scaler and self.scaler.get_scale(), self.skipped
        rate = self.rates.set(number - 1 - self.skipped)
        loss, norm = self.step(batch)
        self.meter.synchronise()
        seconds, rest = time.perf_counter() - begun, self.meter.now()
        peak = self.meter.take_step()
        if not math.isfinite(loss):
            raise ValueError(f"step {number}: the loss is {loss}; the numbers left the range of the dtype")
        self.release()
        every = self.cell["empty_cache_steps"]
        if every and number % every == 0:
            self.meter.empty_cache()
        self.between(number)
        skipped = {"skipped": True} if self.skipped > allowed else {}
        steps.add({
            "step": number, "loss": loss, "gradient_norm": norm, "learning_rate": rate, "seconds": seconds,
            **({"loss_scale": scale} if scale else {}), **skipped,
            "tokens": sum(len(micro["ids"]) for micro in batch["micro"]),
            "real_tokens": sum(micro["real_tokens"] for micro in batch["micro"]),
            "allocated_bytes": rest, "allocated_peak_bytes": peak, "reserved_bytes": self.meter.reserved_now(),
            "process_bytes": memory.resident(), "system_available_bytes": machine.memory("MemAvailable"),
            "system_used_percent": machine.used_percent(), "page_faults": None, "empty_cache": None,
        })
        return peak

    def step(self, batch):
        """An optimizer step. Its gradients stay. Returns the mean loss and the gradients' norm."""
        if self.cell["torch"]["zero_grad"] == "before_forward":
            self.optimizer.zero_grad()
        # A tensor, so that the CPU does not wait for a GPU within the step.
        own = self.ranks.own(batch["micro"])
        total = sum(self.micro_batch(micro, batch["counted"], is_last=micro is own[-1]) for micro in own)
        self.meter.begin("optimizer")
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        most, norm = self.cell["max_grad_norm"], math.nan
        if most > 0:
            norm = self.ranks.clip(self.wrapped, self.trained, most)
        if self.scaler:
            scale = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.skipped += self.scaler.get_scale() < scale
        else:
            self.optimizer.step()
        return self.ranks.total(total).item(), float(norm)

    def micro_batch(self, micro, counted, is_last):
        """The passes of a micro-batch, whose share of the step's loss is its share of what is counted. With the last one,
        ranks average their gradients."""
        keep, share = self.cell["torch"]["keep_outputs"], micro["counted"] / counted
        self.meter.begin("forward")
        given = tensors(micro, self.meter.device, self.cell)
        with self.ranks.micro_batch(self.wrapped, is_last):
            loss = self.passes(given, keep, share)
        return loss.detach() * share

    def passes(self, given, keep, share):
        """The forward and the backward pass. Returns the loss."""
        with self.autocast():
            outputs = self.wrapped(**given)
        loss = outputs.loss
        if keep == "none":
            outputs = None
        else:
            self.outputs, self.given = outputs, given
        scaled = loss if share * self.ranks.world_size == 1 else loss * (share * self.ranks.world_size)
        self.meter.begin("backward")
        (self.scaler.scale(scaled) if self.scaler else scaled).backward()
        return loss

    def release(self):
        """The end of a step: gradients and outputs go, as the cell says."""
        zero = self.cell["torch"]["zero_grad"]
        if zero == "after_step":
            self.optimizer.zero_grad()
        elif zero == "never":
            self.optimizer.zero_grad(set_to_none=False)
        if self.cell["torch"]["keep_outputs"] != "next_forward":
            self.outputs = self.given = None
        self.meter.begin("idle")

    def between(self, number):
        """What is done between steps: text is generated, the model is saved."""
        generation, every = self.cell["torch"]["generation"], self.cell["torch"]["save_steps"]
        if generation and number % generation["eval_steps"] == 0:
            between.generate(self.model, generation, self.meter.device, self.cell["seed"] + number)
        if every and number % every == 0:
            between.save_checkpoint(self.model)
