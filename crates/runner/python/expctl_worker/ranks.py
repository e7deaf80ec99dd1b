"""Several processes that train together: this one starts the others, and one that dies ends them all."""
import contextlib, json, os, pathlib, socket, subprocess, sys, threading, time

# The other ranks, as far as this process started them.
others = []


def of_process():
    """The rank that another process has given this one."""
    return int(os.environ.get("EXPCTL_RANK", 0))


def start_others(inputs, given):
    """Starts the other ranks, each with this command line. Their words go to the log, and not among the events."""
    world_size = inputs.cell["world_size"]
    if world_size == 1 or of_process():
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = pathlib.Path(inputs.batches).with_name("answer.json")
    answer.write_text(json.dumps(inputs.answer))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "EXPCTL_ANSWER": str(answer)}
    line = [sys.executable, *sys.argv]
    if given.parent is not None:
        line[line.index("--parent") + 1] = str(os.getpid())
    for rank in range(1, world_size):
        others.append(subprocess.Popen(line, env=os.environ | {"EXPCTL_RANK": str(rank)}, stdout=sys.stderr))
    threading.Thread(target=watch, daemon=True).start()


def watch():
    """Ends this process with the first of the others that fails: the rest would wait for it for ever."""
    while any(other.poll() is None for other in others):
        time.sleep(0.1)
        end_as_another(wait=0)


def end_as_another(wait=3):
    """Ends this process as another rank did, if one failed: what fails here then follows from it."""
    until = time.monotonic() + wait
    while others:
        codes = [code for code in (other.poll() for other in others) if code]
        if codes:
            print(f"another rank ended with exit code {codes[0]}", file=sys.stderr, flush=True)
            if codes[0] < 0:
                os.kill(os.getpid(), -codes[0])
            os._exit(codes[0])
        if time.monotonic() > until:
            return
        time.sleep(0.1)


def device_of(cell):
    """The cell's device; the ranks of several have one each."""
    import torch

    name = cell["device"]
    if name == "auto":
        name = "cuda:0" if torch.cuda.device_count() >= cell["world_size"] else "cpu"
    cell["device"] = name
    device = torch.device(name)
    return torch.device("cuda", device.index + of_process()) if device.type == "cuda" else device


class Ranks:
    """The processes, as one of them sees them."""

    def __init__(self, cell, device):
        self.cell, self.rank, self.world_size = cell, of_process(), cell["world_size"]
        self.device, self.shares = device, self.world_size > 1 and cell["distributed"] == "fsdp"
        if self.world_size > 1:
            import torch.distributed

            # What is offloaded is summed on the CPU.
            backend = "cuda:nccl,cpu:gloo" if device.type == "cuda" else "gloo"
            torch.distributed.init_process_group(backend, rank=self.rank, world_size=self.world_size)

    def wrap(self, model):
        """The model as the processes share the work."""
        if self.world_size == 1:
            return model
        if self.shares:
            from . import fsdp
            return fsdp.wrap(model, self.cell, self.device)
        import torch

        options = self.cell["torch"]
        looks = options["ddp_find_unused_parameters"]
        if looks is None:
            # As transformers' Trainer: adapters may leave some unused, and reentrant checkpoints forbid it.
            from .model import release
            reentrant = options["use_reentrant"] if options["use_reentrant"] is not None else release("transformers") < (5, 0)
            checkpoints = self.cell["gradient_checkpointing"] != "none"
            looks = not (checkpoints and (reentrant or not self.cell["rank"]))
        more = {"bucket_cap_mb": options["ddp_bucket_cap_mb"]} if options["ddp_bucket_cap_mb"] else {}
        return torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[self.device] if self.device.type == "cuda" else None, gradient_as_bucket_view=options["gradient_as_bucket_view"],
            find_unused_parameters=looks, **more)

    def micro_batch(self, model, is_last):
        """A micro-batch, whose gradients ranks average if it is the step's last."""
        if self.shares:
            from . import fsdp
            return fsdp.without_reduction(model, is_last)
        return contextlib.nullcontext() if is_last or self.world_size == 1 else model.no_sync()

    def clip(self, model, trained, most):
        """Scales gradients to a norm. Returns what the norm was."""
        if self.shares:
            from . import fsdp
            return fsdp.clip(model, most)
        import torch

        return torch.nn.utils.clip_grad_norm_(trained, most)

    def own(self, batches):
        """The micro-batches of this rank: they take turns. One without a last one repeats another, which counts nothing."""
        own = batches[self.rank::self.world_size]
        most = -(-len(batches) // self.world_size)
        return own + [batches[-1] | {"counted": 0}] * (most - len(own))

    def total(self, value):
        """The sum of a tensor over all ranks."""
        if self.world_size > 1:
            import torch.distributed

            torch.distributed.all_reduce(value)
        return value

    def close(self):
        if self.world_size > 1:
            import torch.distributed

            torch.distributed.destroy_process_group()

    def gather(self, figures):
        """The figures of all ranks, on each."""
        if self.world_size == 1:
            return [figures]
        import torch.distributed

        found = [None] * self.world_size
        torch.distributed.all_gather_object(found, figures)
        return found
