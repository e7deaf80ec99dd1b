"""Matrix products of expctl compared with torch's (oneDNN in bfloat16, MKL in float32), on two threads, in turn, in one run.

    pip install torch
    python python/bench/gemm_against_torch.py [--rounds 5] [2048x576x3072 ...]

Torch computes `x @ w.t()` into a tensor that is there already. Prints a Markdown table: medians over the rounds of each
round's median, in TFLOP/s, and ours as a multiple of torch's.
"""
import argparse, os, re, statistics, subprocess, time

import torch


def ours(shapes):
    """{shape: (bfloat16, float32)} of one run of `cargo bench --bench gemm`."""
    output = subprocess.run(["cargo", "bench", "--quiet", "--bench", "gemm", "--", *shapes],
                            check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "RAYON_NUM_THREADS": "2"}).stdout
    rows = re.findall(r"(\d+) x (\d+) x (\d+)\s+([\d.]+) TF/s\s+[\d.]+ TF/s\s+([\d.]+) TF/s", output)
    return {"x".join(row[:3]): (float(row[3]), float(row[4])) for row in rows}


def torchs(shape, dtype, runs=7):
    rows, depth, cols = map(int, shape.split("x"))
    x, w = torch.full((rows, depth), 0.5, dtype=dtype), torch.full((cols, depth), 0.25, dtype=dtype)
    out = torch.empty((rows, cols), dtype=dtype)
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        torch.mm(x, w.t(), out=out)
        seconds.append(time.perf_counter() - start)
    return 2e-12 * rows * depth * cols / statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="ROWSxDEPTHxCOLS")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    rounds = []
    for _ in range(arguments.rounds):
        mine = ours(arguments.shapes)
        rounds.append({shape: mine[shape] + (torchs(shape, torch.bfloat16), torchs(shape, torch.float32)) for shape in mine})
    print("| rows × depth × columns | bfloat16 | torch | ratio | float32 | torch | ratio |\n|---|---|---|---|---|---|---|")
    for shape in rounds[0]:
        mine16, mine32, torch16, torch32 = (statistics.median(of[shape][at] for of in rounds) for at in range(4))
        print(f"| {shape.replace('x', ' × ')} | {mine16:.2f} | {torch16:.2f} | {mine16 / torch16:.2f} × "
              f"| {mine32:.2f} | {torch32:.2f} | {mine32 / torch32:.2f} × |")


main()
