"""A cell's training from its inputs to the figures of its record."""
import time

import torch

from . import between, machine, memory, model, ranks, record
from .loop import Loop
from .protocol import Steps


def run(inputs, given):
    """Trains the cell. Returns the figures of its record; None of a trial."""
    cell, begun = inputs.cell, time.monotonic()
    if given.save_model and cell["world_size"] > 1 and cell["distributed"] == "fsdp":
        raise ValueError("record.model: the parts of a model that FSDP shares are not gathered")
    torch.manual_seed(cell["seed"])
    device = ranks.device_of(cell)
    if device.type == "cpu" and "OMP_NUM_THREADS" not in cell["env"]:
        torch.set_num_threads(machine.threads_of(cell))
    if device.type == "cuda":
        # Results of two GPUs are told apart.
        cell["device"] = f"{cell['device']}, {torch.cuda.get_device_name(device)}"
    meter = memory.start(device, cell["device_memory"])
    processes = ranks.Ranks(cell, device)
    # FSDP brings a model to its GPUs in parts.
    place = torch.device("cpu") if processes.shares else device
    loop = Loop(model.load(cell, inputs, place), cell, inputs, meter, processes)
    meter.start_training()
    loaded = time.monotonic() - begun
    if given.trial:
        return loop.try_out(inputs.steps())
    steps = Steps(given.folder, len(inputs.learning_rates), is_silent=loop.ranks.rank > 0)
    steps.say("training", steps=steps.total, tokens_per_step=inputs.tokens_per_step)
    peaks = []
    for number, batch in enumerate(inputs.steps(), 1):
        peaks.append(loop.whole_step(steps, number, batch))
    figures = record.of_ranks(loop.ranks.gather(meter.figures(peaks)))
    loop.optimizer = None
    evaluated = between.evaluate(loop, inputs)
    processes.close()
    if loop.ranks.rank:
        return None
    return record.measured(steps.done, figures, {
        "load_seconds": loaded, "parameter_count": inputs.parameter_count, "samples_left_out": inputs.samples_left_out,
        "trainable_count": loop.trainable_count, **evaluated,
        "adapter_file_bytes": None if loop.ranks.shares else between.save(loop.model, cell, given),
    })
