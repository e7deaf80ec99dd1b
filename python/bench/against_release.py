"""Is a new expctl slower than an old one? Steps of both in turn on one machine; exit code 1 if it is, 2 after a mistake.

    git worktree add ../old v0.1.0
    cargo build --release --manifest-path ../old/Cargo.toml --target-dir ../old/target
    cargo build --release
    python python/bench/against_release.py ../old/target/release/expctl target/release/expctl [--steps 24] [SPEC]

Both programs run the spec at once, but one of them is always stopped (SIGSTOP): they take a step in turn, each as often
the first. So a pair of steps is seconds apart, and other work on the machine seldom meets one of them alone; the machine
holds both programs' memory. The first two steps of a cell are left out. The new program is slower if, of any cell, the
median ratio of the pairs is over 1 + `--tolerance`, and if as many ratios over 1 as there are would come from two equal
programs in at most one of `--odds` tries of all cells (a sign test, one-sided).
"""
import argparse, math, os, signal, statistics, subprocess, sys, tempfile, time
from pathlib import Path

# Steps of a cell that are not counted.
WARM_UP = 2


class Run:
    """A program that trains the cells of a spec, stopped but for `step`."""

    def __init__(self, program, spec, steps, folder):
        self.program, self.folder = program, Path(folder)
        command = [program, "run", spec, "--set", f"max_steps={steps}", "--results", folder, "--progress", "none"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        except OSError as error:
            fail(error)
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        """Sends a signal to the program, and then to its child that trains."""
        os.kill(self.process.pid, number)
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        for child in children.stdout.split():
            try:
                os.kill(int(child), number)
            except ProcessLookupError:
                pass

    def steps(self):
        """Steps that were trained, of each cell that has any."""
        counts = {path.parent.name: path.read_bytes().count(b"\n") for path in self.folder.glob("cells/*/steps.jsonl")}
        return {cell: count for cell, count in counts.items() if count > 0}

    def step(self):
        """Trains a step. The seconds it took, and which cell's it was; nothing after the last."""
        before, start = self.steps(), time.perf_counter()
        self.signal(signal.SIGCONT)
        while (after := self.steps()) == before:
            if self.process.poll() is not None:
                if self.process.returncode != 0:
                    fail(f"{self.program} ended with exit code {self.process.returncode}")
                return None
            time.sleep(0.001)
        seconds = time.perf_counter() - start
        self.signal(signal.SIGSTOP)
        # Versions name cells differently.
        return seconds, len(after) - 1

    def end(self):
        """Ends the program as Ctrl-C does, if it runs: it ends its child."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def chance(over, pairs):
    """The probability of at least so many ratios over 1 among those of equal programs."""
    return sum(math.comb(pairs, count) for count in range(over, pairs + 1)) / 2**pairs


def measure(programs, spec, steps):
    """The pairs of seconds of each cell, in the order in which the cells ran."""
    pairs = []
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        runs = []
        try:
            for program, folder in zip(programs, (old, new)):
                runs.append(Run(program, spec, steps + WARM_UP, folder))
            at = 0
            while True:
                ended = [run.step() for run in (runs if at % 2 == 0 else runs[::-1])]
                old_step, new_step = ended if at % 2 == 0 else ended[::-1]
                if old_step is None and new_step is None:
                    break
                if old_step is None or new_step is None or old_step[1] != new_step[1]:
                    fail("the two programs make different cells of this spec, or train them for different numbers of steps")
                if old_step[1] == len(pairs):
                    pairs.append([])
                pairs[-1].append((old_step[0], new_step[0]))
                at += 1
        finally:
            for run in runs:
                run.end()
    if not pairs or any(len(of_cell) != steps + WARM_UP for of_cell in pairs):
        fail(f"the cells were not trained for {steps + WARM_UP} steps each")
    return [of_cell[WARM_UP:] for of_cell in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("spec", nargs="?", default="benches/reference.yaml")
    parser.add_argument("--steps", type=int, default=24, help="counted steps of each cell")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--odds", type=float, default=20)
    arguments = parser.parse_intermixed_args()
    if arguments.steps < 1:
        parser.error("--steps must be positive")
    cells = measure((arguments.old, arguments.new), arguments.spec, arguments.steps)
    most = 1 / arguments.odds / len(cells)
    if chance(arguments.steps, arguments.steps) > most:
        fail(f"{arguments.steps} steps are too few to tell {len(cells)} cells from chance")
    slower = False
    print("| cell | old (s) | new (s) | new over old, median (lowest to highest) | over 1 | |\n|---|---|---|---|---|---|")
    for cell, pairs in enumerate(cells):
        ratios = sorted(new / old for old, new in pairs)
        old, new = (statistics.median(pair[which] for pair in pairs) for which in (0, 1))
        over = sum(ratio > 1 for ratio in ratios)
        is_slower = statistics.median(ratios) > 1 + arguments.tolerance and chance(over, len(ratios)) <= most
        slower |= is_slower
        print(f"| {cell + 1} | {old:.3f} | {new:.3f} | {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f}) | {over} of {len(ratios)} | {'slower' if is_slower else 'ok'} |")
    sys.exit(1 if slower else 0)


main()
