"""Imports the example configurations of axolotl, LLaMA-Factory and torchtune, and prints what becomes of them.

    git clone --depth 1 https://github.com/axolotl-ai-cloud/axolotl
    git clone --depth 1 https://github.com/hiyouga/LLaMA-Factory
    git clone --depth 1 https://github.com/pytorch/torchtune
    python check_examples.py axolotl LLaMA-Factory torchtune --expctl ../../target/release/expctl

Each file is imported, and the spec is validated and planned. A model that is not a preset is planned as one of its
family, since nothing is downloaded. Of the files that train a text model of a family that is planned, by supervised
training with LoRA, QLoRA or all weights, a share is imported without a key lost that changes memory. Exit code 1 if
that share is below 70 %, if a spec is refused by `validate`, or if the program panics.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

FOLDERS = {"axolotl": "examples", "LLaMA-Factory": "examples", "torchtune": "recipes/configs"}

# Families by parts of a model's name, with a preset that stands for one that is none.
FAMILIES = [
    ("mixtral", None), ("moe", None), ("llama-4", None), ("llama4", None), ("-vl", None), ("vision", None),
    ("qwen3.5", None), ("qwen3-next", None), ("qwen3-30b", None), ("gemma-3n", None), ("gemma-4", None),
    ("mistral-small", None), ("mistral-medium", None), ("ministral-3", None), ("qwen-7b", None),
    ("gptq", None), ("awq", None), ("aqlm", None), ("smolvlm", None), ("llava", None), ("nvfp4", None), ("nemotron", None),
    ("qwen3", "qwen3-4b"), ("qwen2", "qwen2.5-7b"), ("llama", "llama-3.1-8b"), ("smollm2", "smollm2-135m"),
    ("ministral-8b", "ministral-8b"), ("mistral-7b", "mistral-7b"), ("gemma-3", "gemma-3-1b"), ("gemma-2-", "gemma-2-2b"),
    ("gemma", "gemma-2b"), ("phi-3", "phi-3-mini"), ("phi-4", "phi-4-mini"), ("cogito-v1-preview-qwen", "qwen2.5-14b"),
    ("deepcoder", "qwen2.5-14b"), ("orpheus-3b", "llama-3.2-3b"), ("yi-34b", "llama-30b"), ("plano", "qwen3-4b"),
    ("magistral", None), ("devstral", None), ("skywork", "qwen3-8b"),
]
# Methods other than supervised fine-tuning with LoRA, QLoRA or all weights, by a key that switches them on: ReLoRA, LISA,
# sparse training, blocks in turn, and losses with a name of their own (DFT, ASFT, EAFT).
OTHER_METHODS = re.compile(
    r"^(relora|lisa_n_layers|llmcompressor|qat|use_llama_pro|use_badam|mixture_of_depths|"
    r"use_dft_loss|use_asft_loss|use_eaft_loss|use_eaft):\s*(?!false|null)\S", re.MULTILINE)
NOT_SUPERVISED = re.compile("preferences|rewards|teacher|simulated quantisation|images|evaluates|experts are not|is a mixture|trains nothing|exports a model|quantised are not|pre-?quantised")


def run(command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def family(text):
    name = text.lower()
    return next((preset for part, preset in FAMILIES if part in name), None)


def model_of(path):
    """The model's name as the file has it."""
    try:
        read = yaml.safe_load(path.read_text())
    except yaml.YAMLError:
        return ""
    read = read if isinstance(read, dict) else {}
    component = (read.get("model") or {}).get("_component_", "") if isinstance(read.get("model"), dict) else ""
    names = {"llama": "llama", "mistral": "mistral-7b", "gemma2": "gemma-2-", "gemma": "gemma", "phi3": "phi-3", "phi4": "phi-4"}
    names |= {"qwen": "qwen2"}
    of_component = next((name for part, name in names.items() if part in component), "") if "vision" not in component and "llama4" not in component else "llama-4"
    return str(read.get("base_model") or read.get("model_name_or_path") or of_component)


def judge(expctl, path, folder):
    """The file's outcome, with what there is to say of it."""
    output = folder / "spec.yaml"
    imported = run([expctl, "import", path, "--output", output, "--force"])
    said = imported.stderr.strip()
    if imported.returncode not in (0, 2):
        return "panic", said
    preset = family(model_of(path))
    if imported.returncode == 2:
        is_other = "no tool has these keys" in said or "the file is empty" in said or "not an option" in said
        return ("no training" if is_other else "refused"), said
    text = output.read_text()
    for command in ("validate", "plan"):
        result = run([expctl, command, output])
        if result.returncode not in (0, 3) and re.search("hub|network|offline|reach|download", result.stderr):
            if preset is None:
                return "other family", said
            result = run([expctl, command, output, "--set", f"model={preset}"])
        if result.returncode not in (0, 3):
            return ("not planned: " + command), result.stderr
    lost = re.search(r"^# Lost.*?(?=^# Note|^name:)", text, re.MULTILINE | re.DOTALL)
    return ("lost" if lost else "whole"), lost.group(0) if lost else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=pathlib.Path)
    parser.add_argument("--expctl", default="expctl")
    parser.add_argument("--verbose", action="store_true", help="print each file's outcome and reasons")
    arguments = parser.parse_args()
    failed, all_ours = False, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for repository in arguments.repositories:
            files = sorted((repository / FOLDERS[repository.name]).rglob("*.y*ml"))
            counts = collections.Counter()
            ours = collections.Counter()
            for path in files:
                outcome, said = judge(arguments.expctl, path, pathlib.Path(folder))
                counts[outcome] += 1
                failed |= outcome == "panic" or outcome.startswith("not planned: validate")
                is_other = OTHER_METHODS.search(path.read_text())
                is_ours = family(model_of(path)) is not None and not NOT_SUPERVISED.search(said) and outcome != "no training" and not is_other
                if is_ours:
                    ours[outcome] += 1
                if arguments.verbose:
                    print(f"{path.relative_to(repository)}: {outcome}{'' if is_ours else ' (another training)'}")
                    print("".join(f"    {line}\n" for line in said.splitlines()), end="")
            total = sum(ours.values())
            share = ours["whole"] / total if total else 0.0
            all_ours.update(ours)
            print(f"{repository.name}: {len(files)} files:", ", ".join(f"{count} {name}" for name, count in counts.most_common()))
            print(f"  supervised, of a family that is planned: {total}:", ", ".join(f"{n} {name}" for name, n in ours.most_common()), f"- {share:.0%} whole")
    share = all_ours["whole"] / max(sum(all_ours.values()), 1)
    print(f"together: {all_ours['whole']} of {sum(all_ours.values())} whole, {share:.1%}")
    sys.exit(1 if failed or share < 0.7 else 0)


if __name__ == "__main__":
    main()
