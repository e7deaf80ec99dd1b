"""Mutated specs: `validate` and `plan` answer each in time, without a panic.

    python python/robustness/specs.py EXPCTL [--validate 10000] [--plan 2000] [--seed 1] [--jobs 2]

The specs that ship are changed at random: lines are dropped, doubled and swapped, numbers become huge, small, negative or
fractions, words become other words of the specs, quotes and brackets are left open. `validate` must end within 10 s and `plan`, which
takes ten for the largest spec that ships, within 30; both exit with 0, 1, 2 or 3. Needs Python 3.9 and no packages.
"""

import argparse
import concurrent.futures
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = {"validate": 10, "plan": 30}
NUMBERS = ["0", "1", "-1", "2", "7", "0.5", "-0.0", "1e-9", "1e9", "4294967296", "18446744073709551615", "18446744073709551616", "1e308", ".nan", ".inf", "0x10", "1_000", "null", "''", "[]", "{}"]


def words(texts):
    """The words of the specs that are not comments."""
    found = set()
    for text in texts:
        for line in text.splitlines():
            found.update(re.findall(r"[A-Za-z_][A-Za-z0-9_.-]+", line.split("#")[0]))
    return sorted(found)


def mutated(text, vocabulary, generator):
    for _ in range(generator.choice([1, 1, 1, 2, 3, 5])):
        lines = text.splitlines()
        kind = generator.choice(["number", "number", "number", "word", "word", "drop", "double", "swap", "indent", "cut", "open", "byte", "list", "key"])
        at = generator.randrange(len(lines)) if lines else 0
        if not lines:
            return text
        if kind in ("number", "word"):
            pattern = r"(?<![\w.])-?\d[\w.]*" if kind == "number" else r"[A-Za-z_][A-Za-z0-9_.-]+"
            found = [match for match in re.finditer(pattern, text) if "#" not in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]]
            if found:
                match = generator.choice(found)
                new = generator.choice(NUMBERS) if kind == "number" or generator.random() < 0.1 else generator.choice(vocabulary)
                text = text[: match.start()] + new + text[match.end() :]
            continue
        if kind == "drop":
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[at])
        elif kind == "swap":
            other = generator.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "indent":
            lines[at] = generator.choice(["  " + lines[at], lines[at].lstrip(), "\t" + lines[at]])
        elif kind == "cut":
            lines[at] = lines[at][: generator.randrange(len(lines[at]) + 1)]
        elif kind == "open":
            place = generator.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + generator.choice("[]{}\"'&*!|>%@`,:#-?") + lines[at][place:]
        elif kind == "byte":
            place = generator.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + generator.choice("\0\x1b\u202e\ufeff\u00a0é𝄞") + lines[at][place:]
        elif kind == "list":
            lines[at] = re.sub(r"\[(.*?)\]", lambda match: "[" + ", ".join([match[1]] * 3) + "]", lines[at])
        elif kind == "key":
            lines.insert(at, f"{' ' * (len(lines[at]) - len(lines[at].lstrip()))}{generator.choice(vocabulary)}: {generator.choice(NUMBERS + vocabulary[:5])}")
        text = "\n".join(lines) + "\n"
    return text


def attempt(expctl, command, specs, vocabulary, seed):
    generator = random.Random(f"{command} {seed}")
    path, text = generator.choice(specs)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix=".mutated", dir=path.parent, errors="surrogatepass", encoding="utf-8") as file:
        file.write(mutated(text, vocabulary, generator))
        file.flush()
        started = time.monotonic()
        try:
            done = subprocess.run([expctl, command, file.name], cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=2 * SECONDS[command], stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess([], 124, "", "hangs")
        seconds = time.monotonic() - started
        is_wrong = done.returncode not in (0, 1, 2, 3) or "panicked" in done.stderr or seconds > SECONDS[command]
        if is_wrong:
            kept = pathlib.Path(tempfile.gettempdir()) / f"{command}-{seed}.yaml"
            kept.write_text(pathlib.Path(file.name).read_text())
            return seconds, f"{command} {seed} ({path.name}): exit code {done.returncode}, {seconds:.1f} s: {done.stderr.strip()[-200:]}; kept as {kept}"
        return seconds, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("expctl", type=pathlib.Path)
    parser.add_argument("--validate", type=int, default=10000)
    parser.add_argument("--plan", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    expctl = arguments.expctl.resolve()
    copy = tempfile.TemporaryDirectory()
    # Relative paths of a spec lead to files beside it.
    shutil.copytree(ROOT / "experiments", pathlib.Path(copy.name) / "experiments")
    specs = [(path, path.read_text()) for path in sorted(pathlib.Path(copy.name).rglob("*.yaml"))]
    vocabulary = words(text for _, text in specs)
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for command, count in [("validate", arguments.validate), ("plan", arguments.plan)]:
            slowest = 0.0
            seeds = range(arguments.seed, arguments.seed + count)
            for seconds, fault in pool.map(lambda seed: attempt(expctl, command, specs, vocabulary, seed), seeds):
                slowest = max(slowest, seconds)
                if fault:
                    wrong += 1
                    print(fault, flush=True)
            print(f"{command}: {count} specs, slowest {slowest:.1f} s", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
