"""What this machine and this Python offer to cells. Nothing here imports PyTorch but `print_offer`."""
import importlib.metadata, json, os, pathlib, platform

from .protocol import plain

PROTOCOL = 1
ENGINE = "python"
PACKAGES = ["torch", "transformers", "peft", "accelerate", "bitsandbytes", "trl", "liger-kernel", "flash-attn", "deepspeed",
            "safetensors", "numpy"]


def releases():
    """The packages that are installed, with the release of Python."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def of_proc(path, name):
    """A figure that the kernel has in kB there, in bytes; None without it."""
    try:
        lines = pathlib.Path(path).read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))
    except (OSError, StopIteration):
        return None


def memory(name="MemTotal"):
    """A figure of the system's memory."""
    return of_proc("/proc/meminfo", name)


def used_percent():
    """The used part of the system's memory, of all processes."""
    total, available = memory(), memory("MemAvailable")
    return 100 * (1 - available / total) if total and available is not None else None


def description():
    system = platform.uname()
    return {"cpu": processor(), "cores": cores(), "memory_bytes": memory(),
            "os": f"{system.system} {system.release} {system.machine}"}


def found():
    """What the cell's process finds; the run has set its threads."""
    threads = int(os.environ.get("RAYON_NUM_THREADS", 0)) or cores()
    return {"engine": ENGINE, "releases": releases(), "threads": threads, "machine": description()}


def threads_of(cell):
    """The cell's threads; the ranks of several share the cores if it does not say."""
    return cell["threads"] or max(1, cores() // cell["world_size"])


def set_threads(cell):
    """Has PyTorch compute with so many threads, unless the cell's own environment says how many."""
    for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS"]:
        if name not in cell["env"]:
            os.environ[name] = str(threads_of(cell))


def gpus():
    """The GPUs that PyTorch can use, and the driver's reason if it can use none."""
    import torch

    if not torch.cuda.is_available():
        return []
    properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [{"name": gpu.name, "memory_bytes": gpu.total_memory} for gpu in properties]


def print_offer():
    offer = {
        "protocol": PROTOCOL, "engine": ENGINE, "machine": description(), "instruction_set": "portable",
        "auto_instruction_set": "portable", "allocators": ["system", "retain"], "cuda": False, "releases": releases(), "gpus": [],
        "available_bytes": memory("MemAvailable"),
    }
    if "torch" in offer["releases"]:
        try:
            offer["gpus"] = gpus()
        except Exception as error:
            offer["import_error"] = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    offer["cuda"] = bool(offer["gpus"])
    print(json.dumps(plain(offer)))
