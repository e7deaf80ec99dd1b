"""Damage to the files of studies: whether each command notices, and whether `run` makes the study whole again.

    python python/robustness/damage.py EXPCTL [--rounds 5000] [--seed 1] [--jobs 2]

Two studies are run: one with timelines, repeats, trials of a searched batch, a ladder and a published figure, one that is
planned. A round damages one file: a bit, a digit, a cut, a double, another cell's file, an empty file, a folder, a link, a
pipe, or no file. Every command that reads the file must name it (or not depend on it), none may panic, hang or write
through a link, and `expctl run` must make the study whole. Needs Python 3.9 and no packages.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

SPECS = {
    "damaged": """
name: damaged
defaults: { model: tiny, dtype: float32, max_seq_length: 32, max_steps: 2 }
sweep: { grid: { rank: [2, 4] }, include: [{ auto_batch_size: { start: 2, max: 4, search: largest }, device_memory: 4MiB }] }
repeats: 2
record: { timeline: true }
published: [{ column: allocated_peak_bytes, value: 1, unit: MiB, metric: allocated, source: somebody, cell: { rank: 2 } }]
""",
    "ladder": """
name: ladder
defaults: { model: tiny, dtype: float32, max_seq_length: 64, max_steps: 2, batch_size: 8, device_memory: 3MiB }
on_oom: { ladder: [halve_batch] }
""",
    "planned": """
name: planned
defaults: { model: tiny, max_seq_length: 32, max_steps: 2 }
sweep: { grid: { rank: [2, 4] }, include: [{ stack: torch, model: llama-3.2-1b, dtype: bfloat16, optim: adamw }] }
""",
}
SECONDS = 60
DAMAGES = ["bit", "bit", "bit", "digit", "digit", "digit", "cut", "double", "swap", "empty", "folder", "link", "dangling", "pipe", "gone"]


class Round:
    def __init__(self, expctl, good, folder, seed):
        self.expctl, self.good, self.folder = expctl, good, folder
        self.random = random.Random(seed)
        self.faults = []

    def run(self, *arguments):
        try:
            return subprocess.run([self.expctl, *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(arguments, 124, "", f"hangs: {error}")

    def go(self):
        shutil.copytree(self.good, self.folder, symlinks=True)
        study = self.random.choice(sorted(SPECS))
        results = self.folder / "results" / study
        files = sorted(path for path in results.rglob("*") if path.is_file() and path.name not in (".lock", "log.txt"))
        file = self.random.choice(files)
        kind = self.random.choice(DAMAGES)
        target = self.folder / "target"
        target.write_text("mine")
        if not self.damage(file, kind, files, target):
            return None
        name = f"{study}: {file.relative_to(results)}: {kind}"
        spec, is_cell = f"{study}.yaml", file.parent.parent.name == "cells"
        said = {
            "report": self.run("report", spec, "--output", "out/report.md"),
            "report of the folder": self.run("report", f"results/{study}", "--output", "out/folder.md"),
            "compare": self.run("compare", f"results/{study}", f"good/{study}"),
            "list": self.run("list"),
        }
        if is_cell:
            said["show"] = self.run("show", str(file.parent.relative_to(self.folder)))
            said["export"] = self.run("export", str(file.parent.relative_to(self.folder)), "--format", "csv", "--output", "-")
        for command, done in said.items():
            if done.returncode not in (0, 1, 2, 3) or "panicked" in done.stderr:
                self.faults.append(f"{name}: {command}: exit code {done.returncode}: {done.stderr[-200:]}")
        self.check_noticed(name, file, kind, said)
        done = self.run("run", spec, "--progress", "none")
        if done.returncode not in (0,) or "panicked" in done.stderr:
            self.faults.append(f"{name}: run: exit code {done.returncode}: {done.stderr[-300:]}")
        if target.read_text() != "mine" or (self.folder / "nothing").exists():
            self.faults.append(f"{name}: something was written through a link")
        whole = self.run("report", spec, "--output", "out/whole.md")
        if whole.returncode or "warning" in whole.stderr:
            self.faults.append(f"{name}: the study is not whole after a run: {whole.stderr[-300:]}")
        if is_cell:
            whole = self.run("show", str(file.parent.relative_to(self.folder)))
            if whole.returncode or "warning" in whole.stderr:
                self.faults.append(f"{name}: the cell is not whole after a run: {whole.stderr[-300:]}")
        return self.faults

    def damage(self, file, kind, files, target):
        """False if nothing changed."""
        before = file.read_bytes()
        after = bytearray(before)
        if kind == "bit":
            if not after:
                return False
            after[self.random.randrange(len(after))] ^= 1 << self.random.randrange(8)
        elif kind == "digit":
            places = [at for at, byte in enumerate(after) if chr(byte).isdigit()]
            if not places:
                return False
            at = self.random.choice(places)
            after[at] = ord(self.random.choice([digit for digit in "0123456789" if digit != chr(after[at])]))
        elif kind == "cut":
            after = after[: self.random.randrange(max(1, len(after)))]
        elif kind == "double":
            after = after + after
        elif kind == "empty":
            after = bytearray()
        elif kind == "swap":
            others = [other for other in files if other.name == file.name and other != file]
            if not others:
                return False
            after = bytearray(self.random.choice(others).read_bytes())
        else:
            file.unlink()
            if kind == "folder":
                file.mkdir()
                (file / "x").write_text("x")
            elif kind == "link":
                file.symlink_to(target)
            elif kind == "dangling":
                file.symlink_to(self.folder / "nothing")
            elif kind == "pipe":
                os.mkfifo(file)
            return True
        if bytes(after) == before:
            return False
        file.write_bytes(after)
        return True

    def check_noticed(self, name, file, kind, said):
        """What a command shows must be what was measured, or be named."""
        reads = {
            "record.json": ["report", "report of the folder", "show", "export", "compare"],
            "prediction.json": ["report", "report of the folder", "show"],
            "cell.yaml": ["show"],
            "steps.jsonl": ["show"],
            "timeline.bin": ["export"],
            "study.yaml": ["report of the folder"],
        }.get(file.name, [])
        if file.parent.parent.name != "cells" and file.name != "study.yaml":
            reads = []
        for command in reads:
            done = said.get(command)
            if done is None:
                continue
            text = done.stderr + done.stdout
            is_named = done.returncode == 2 or "warning" in done.stderr or "not run" in text or "is missing" in text
            # A file that is gone is one that was never made.
            if kind != "gone" and not is_named:
                self.faults.append(f"{name}: {command} does not notice: {done.stderr[-200:]}")


def prepare(expctl, folder):
    for name, spec in SPECS.items():
        (folder / f"{name}.yaml").write_text(spec)
        done = subprocess.run([expctl, "run", f"{name}.yaml", "--progress", "none"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}{done.stdout}")
    shutil.copytree(folder / "results", folder / "good")


def one(expctl, good, root, seed):
    folder = root / str(seed)
    try:
        return Round(expctl, good, folder, seed).go()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("expctl", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    expctl, count, faults = arguments.expctl.resolve(), 0, []
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        good = root / "good"
        good.mkdir()
        prepare(expctl, good)
        seeds = range(arguments.seed, arguments.seed + arguments.rounds)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for found in pool.map(lambda seed: one(expctl, good, root, seed), seeds):
                if found is None:
                    continue
                count += 1
                faults += found
                for fault in found:
                    print(fault, flush=True)
    print(f"{count} rounds, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
