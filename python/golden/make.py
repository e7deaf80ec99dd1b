"""Makes the fixtures of tests/golden: what torch, transformers, PEFT and bitsandbytes compute on the CPU.

    pip install torch transformers peft bitsandbytes
    python python/golden/make.py [--output FOLDER]

The golden*.json files name the versions it ran with. It is seeded and runs on one thread, so the same versions
on the same kind of machine write the same bytes. tests/fixtures/README.md says what the files hold.
"""
import argparse
import pathlib

import torch

import decoders
import dora
import encoders
import gemma
import head
import ia3
import lion
import ln_tuning
import loha
import lokr
import lora
import merged
import miss
import mistral
import oft
import optimizers
import partial
import phi3
import precision
import prefix_tuning
import prompt_tuning
import quantisation
import qwen2
import qwen3
import vera

FIXTURES = pathlib.Path(__file__).parents[2] / "tests" / "fixtures"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=FIXTURES, help="where the files go, if not to tests/fixtures")
    folder = parser.parse_args().output
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    encoders.write(folder)
    quantisation.correct_dequantize()
    decoders.write(folder)
    phi3.write(folder)
    qwen2.write(folder)
    qwen3.write(folder)
    mistral.write(folder)
    gemma.write(folder)
    dora.write(folder)
    lora.write(folder)
    ia3.write(folder)
    miss.write(folder)
    vera.write(folder)
    oft.write(folder)
    loha.write(folder)
    lokr.write(folder)
    head.write(folder)
    prompt_tuning.write(folder)
    prefix_tuning.write(folder)
    ln_tuning.write(folder)
    merged.write(folder)
    lion.write(folder)
    partial.write(folder)
    precision.write(folder)
    quantisation.write(folder)
    optimizers.write(folder)


main()
