"""What the run reads: events on stdout, and files that appear whole or not at all."""
import json, math


def plain(value):
    """JSON has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value


def say(event, **more):
    """Prints an event, which the run reads as it comes."""
    print(json.dumps(plain({"event": event, **more})), flush=True)


def write_whole(path, value):
    """Writes a file under another name first."""
    part = path.with_name(".expctl-" + path.name)
    part.write_text(json.dumps(plain(value)))
    part.replace(path)


class Steps:
    """`steps.jsonl`, a line for each step; and the event of each. Of several ranks, one speaks."""

    def __init__(self, folder, total, is_silent):
        self.total, self.done, self.is_silent = total, [], is_silent
        self.log = None if is_silent else open(folder / "steps.jsonl", "w", buffering=1)

    def say(self, event, **more):
        if not self.is_silent:
            say(event, **more)

    def add(self, figures):
        self.done.append(figures)
        if self.is_silent:
            return
        self.log.write(json.dumps(plain(figures)) + "\n")
        shown = ["step", "loss", "seconds", "tokens", "allocated_bytes", "reserved_bytes", "system_used_percent"]
        say("step", steps=self.total, **{name: figures.get(name) for name in shown})
