"""What memory does: PyTorch's allocator on a GPU, the process's resident set on a CPU."""
import ctypes, os, pathlib, resource

import torch

from . import machine

PHASES = ["load", "forward", "backward", "optimizer"]


class Meter:
    """Peaks by phase. Beginning a phase resets PyTorch's peaks, which moves no block."""

    def __init__(self, device, budget):
        self.device, self.budget, self.phase = device, budget, "load"
        self.on_gpu = device.type == "cuda"
        self.phases, self.in_step, self.reserved, self.in_load = {}, 0, 0, 0
        if self.on_gpu:
            torch.cuda.set_device(device)
            torch.cuda.init()
            if budget:
                total = torch.cuda.get_device_properties(device).total_memory
                torch.cuda.set_per_process_memory_fraction(min(budget / total, 1.0))

    def begin(self, phase):
        """Ends the phase before."""
        self.end()
        self.phase = phase

    def end(self):
        if self.on_gpu:
            peak = torch.cuda.max_memory_allocated()
            self.phases[self.phase] = max(peak, self.phases.get(self.phase, 0))
            self.in_step = max(peak, self.in_step)
            self.reserved = max(torch.cuda.max_memory_reserved(), self.reserved)
            torch.cuda.reset_peak_memory_stats()

    def start_training(self):
        """The peaks of training count from here."""
        self.end()
        self.in_load, self.reserved, self.in_step = self.reserved, 0, 0
        if not self.on_gpu:
            reset_resident_peak()

    def take_step(self):
        """The peak of the step that ends."""
        self.end()
        peak, self.in_step = self.in_step, self.now() or 0
        return peak if self.on_gpu else None

    def now(self):
        return torch.cuda.memory_allocated() if self.on_gpu else None

    def reserved_now(self):
        return torch.cuda.memory_reserved() if self.on_gpu else None

    def empty_cache(self):
        if self.on_gpu:
            torch.cuda.empty_cache()

    def synchronise(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def figures(self, step_peaks):
        """The figures of a record."""
        if not self.on_gpu:
            total = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            return {"process_peak_bytes": resident("VmHWM"), "process_peak_total_bytes": total}
        self.end()
        used, holds = process_on_gpu(self.device), torch.cuda.memory_reserved()
        context = used - holds if used else None
        of_training = {phase: peak for phase, peak in self.phases.items() if phase != "load"}
        return {
            "allocated_peak_bytes": max([*step_peaks, self.in_step]), "reserved_peak_bytes": self.reserved,
            "process_peak_bytes": self.reserved + context if used else None,
            "process_peak_total_bytes": max(self.reserved, self.in_load) + context if used else None,
            "allocated_peak_phase": max(of_training, key=of_training.get), "allocated_peak_in_phase": dict(self.phases),
        }


# The meter of the cell, which an out-of-memory asks.
current = None


def start(device, budget):
    global current
    current = Meter(device, budget)
    return current


def resident(name="VmRSS"):
    """The process's resident set, or its peak."""
    return machine.of_proc("/proc/self/status", name)


def reset_resident_peak():
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


class NvmlProcess(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


def process_on_gpu(device):
    """What the driver counts for this process; None where it does not tell processes apart."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        handle, count, found = ctypes.c_void_p(), ctypes.c_uint(256), (NvmlProcess * 256)()
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        name = (uuid if uuid.startswith("GPU-") else f"GPU-{uuid}").encode()
        calls = [library.nvmlInit_v2(), library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)),
                 library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)]
    except (OSError, AttributeError, ValueError):
        return None
    of_own = [found[at].used for at in range(count.value) if found[at].pid == os.getpid()]
    # "Not available" is the largest number.
    return of_own[0] if not any(calls) and of_own and of_own[0] < 1 << 60 else None
