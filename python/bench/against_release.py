"""Is a new expctl slower than an old one? Paired runs of both on one machine; exit code 1 if it is, 2 after a mistake.

    git worktree add ../old v0.1.0
    cargo build --release --manifest-path ../old/Cargo.toml --target-dir ../old/target
    cargo build --release
    python python/bench/against_release.py ../old/target/release/expctl target/release/expctl [--pairs 8] [SPEC]

A pair is one run of each, one right after the other, the first of them in turn. A cell's ratio is that of the two medians
of its steps, the first two left out. Other work on the machine changes single ratios, but seldom most of them to one side:
the new program is slower if, of any cell, the median ratio is over 1 + `--tolerance`, and if as many ratios over 1 as there
are would come from two equal programs in at most one of `--odds` tries of all cells (a sign test, one-sided).
"""
import argparse, json, math, statistics, subprocess, sys, tempfile
from pathlib import Path


def steps(program, spec):
    """The median step of each cell, in the order in which they ran."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", spec, "--results", folder, "--progress", "none"]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            fail(error)
        records = [json.loads(path.read_text()) | {"home": path.parent} for path in Path(folder).glob("cells/*/record.json")]
        medians = []
        for record in sorted(records, key=lambda record: record["started_at"]):
            if record["status"] != "ok":
                fail(f"{program}: cell {record['cell_id']} ended with {record['status']}")
            lines = (record["home"] / "steps.jsonl").read_text().splitlines()
            if len(lines) < 3:
                fail(f"cell {record['cell_id']} has {len(lines)} steps, of which the first two are left out")
            medians.append(statistics.median(json.loads(line)["seconds"] for line in lines[2:]))
        return medians


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def chance(over, pairs):
    """The probability of at least so many ratios over 1 among those of equal programs."""
    return sum(math.comb(pairs, count) for count in range(over, pairs + 1)) / 2**pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("spec", nargs="?", default="benches/reference.yaml")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--odds", type=float, default=20)
    arguments = parser.parse_args()
    if arguments.pairs % 2 == 1:
        parser.error("--pairs must be even, so that each program is as often the first")
    pairs = []
    for at in range(arguments.pairs):
        order = [arguments.old, arguments.new] if at % 2 == 0 else [arguments.new, arguments.old]
        medians = [steps(program, arguments.spec) for program in order]
        old, new = medians if at % 2 == 0 else medians[::-1]
        if len(old) != len(new):
            fail("the two programs make different cells of this spec")
        pairs.append((old, new))
        most = 1 / arguments.odds / len(old)
        if at == 0 and chance(arguments.pairs, arguments.pairs) > most:
            parser.error(f"{arguments.pairs} pairs are too few to tell {len(old)} cells from chance")
    slower = False
    print("| cell | old (s) | new (s) | new over old, median (lowest to highest) | over 1 | |\n|---|---|---|---|---|---|")
    for cell in range(len(pairs[0][0])):
        old, new = ([pair[which][cell] for pair in pairs] for which in (0, 1))
        ratios = sorted(after / before for before, after in zip(old, new))
        over = sum(ratio > 1 for ratio in ratios)
        is_slower = (statistics.median(ratios) > 1 + arguments.tolerance
                     and chance(over, len(ratios)) <= most)
        slower |= is_slower
        print(f"| {cell + 1} | {statistics.median(old):.3f} | {statistics.median(new):.3f} | {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f}) | {over} of {len(ratios)} | {'slower' if is_slower else 'ok'} |", flush=True)
    sys.exit(1 if slower else 0)


main()
