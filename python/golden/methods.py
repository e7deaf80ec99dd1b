"""What the golden numbers of adapters other than LoRA's share: the configuration, and the trained values after the float32 run."""
from family import trainable


class Method:
    """An adapter's method, of the family that it is inherited together with. A subclass gives `config` (PEFT's class) and
    `adapter_part` (what its trained tensors' names have); a model gives `settings` of the configuration, `cell`, keys of a spec
    that the configuration does not have, and the names of its `runs`."""

    def adapter_config(self, spec):
        return self.config(task_type=self.task, **spec["settings"])

    def make(self, name, spec, generator):
        self.make_adapter(name, spec, generator)
        batches = self.make_batches(spec["config"].vocab_size, generator)
        loss, tensors = self.sample(self.load(name), batches[self.sampled])
        model = self.load(name)
        self.train(model, batches)
        tensors |= {f"trained.{key}": weight.detach() for key, weight in trainable(model).items()}
        self.save_tensors(name, tensors)
        runs = {run: self.run(name, batches, **self.runs[run]) for run in spec["runs"]}
        return dict(base=spec["base"], cell=spec["cell"], batches=batches, loss=loss, runs=runs)
