"""Trains on files larger than memory and prints the peak memory of the processes: `python python/bench/large_data.py EXPCTL [FOLDER]`.

Makes two JSONL files of 1 GB from the words of crates/data/embedded/sample.txt: documents of 2,000 bytes, and lines of 100 bytes, which are
10 million samples. Needs no package.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GB = 10**9
STEPS = 3
WORDS = (Path(__file__).parents[2] / "crates/data/embedded/sample.txt").read_text().split()


def line(size):
    """A JSON object of about this many bytes with a text of random words."""
    text = ""
    while len(text) < size - 15:
        text += random.choice(WORDS) + " "
    return json.dumps({"text": text.rstrip()}) + "\n"


def make(path, size):
    """Writes 1 GB; a part of 20 MB is repeated."""
    random.seed(0)
    part = "".join(line(size) for _ in range(20_000_000 // size)).encode()
    with open(path, "wb") as file:
        while file.tell() < GB:
            file.write(part)


def processes(pid):
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    yield pid
    for child in children:
        yield from processes(int(child))


def peak(pid):
    """The highest resident set of a process so far, in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def run(expctl, folder, name):
    """Trains some steps and prints the peaks of the run and of the cell's process."""
    spec = folder / f"{name}.yaml"
    spec.write_text(
        f"name: {name}\ndefaults: {{model: tiny, dtype: float32, max_seq_length: 128, max_steps: {STEPS},"
        f" data: {{path: {name}.jsonl}}}}\n"
    )
    results = folder / "results" / name
    command = [expctl, "run", str(spec), "--results", str(results), "--fresh", "--progress", "none"]
    started, peaks = time.time(), {}
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    while child.poll() is None:
        for place, pid in enumerate(processes(child.pid)):
            peaks[min(place, 1)] = max(peaks.get(min(place, 1), 0), peak(pid))
        time.sleep(0.02)
    assert child.returncode == 0, child.returncode
    record = json.loads(next(results.glob("cells/*/record.json")).read_text())
    load = record["measured"]["load_seconds"]
    size = (folder / f"{name}.jsonl").stat().st_size / 1e6
    print(
        f"{name}: {size:.0f} MB, {time.time() - started:.0f} s; the run took {peaks[0]:.0f} MB at its peak, the cell's"
        f" process {peaks[1]:.0f} MB; it read and tokenised {size / load:.1f} MB/s",
        flush=True,
    )


def main():
    expctl = str(Path(sys.argv[1]).resolve())
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.mkdir(exist_ok=True)
    for name, size in [("documents", 2000), ("lines", 100)]:
        if not (folder / f"{name}.jsonl").exists():
            make(folder / f"{name}.jsonl", size)
        run(expctl, folder, name)


if __name__ == "__main__":
    main()
