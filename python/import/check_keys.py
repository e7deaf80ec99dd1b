"""Compares the tables of `expctl import` with the newest release of each tool, and prints the keys that no table has.

    pip install pyyaml
    python check_keys.py

Each package is downloaded from PyPI and its source is parsed; nothing of it is imported. Keys of transformers and
TRL are in one table. Exit code 1 if a key is new.
"""

import argparse
import ast
import fnmatch
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import yaml

TABLES = pathlib.Path(__file__).parents[2] / "crates/import/src/tools"
PACKAGES = ["axolotl", "llamafactory", "torchtune", "trl", "transformers", "accelerate", "deepspeed"]


def download(package, folder):
    """The unpacked newest release, and its version."""
    target = folder / package
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", target, package]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        # A source distribution is not built: its metadata is not needed.
        subprocess.run(command[:-1] + ["--no-build-isolation", package], check=True)
    archive = next(target.iterdir())
    version = archive.name.split("-")[1].removesuffix(".tar.gz")
    if archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(target)
    else:
        tarfile.open(archive).extractall(target, filter="data")
    return target, version


def classes(paths):
    """The annotated fields and the bases of each class."""
    found = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
                found.setdefault(node.name, (fields, [ast.unparse(base) for base in node.bases]))
    return found


def fields_of(name, known):
    fields, bases = known.get(name, ([], []))
    return set(fields).union(*[fields_of(base.split(".")[-1], known) for base in bases])


def of_axolotl(root):
    known = classes((root / "axolotl/utils/schemas").glob("*.py"))
    plugins = classes((root / "axolotl/integrations").glob("*/args.py"))
    keys = fields_of("AxolotlInputConfig", known)
    below = {name for name in plugins if name.endswith(("Config", "Mixin"))} - {"SwanLabConfig"}
    return keys.union(*[set(fields) for name, (fields, _) in plugins.items() if name not in below])


def of_llamafactory(root):
    known = classes((root / "llamafactory/hparams").glob("*_args.py"))
    names = ["ModelArguments", "DataArguments", "FinetuningArguments", "TrainingArguments", "GeneratingArguments"]
    return set().union(*[fields_of(name, known) for name in names])


def of_torchtune(root):
    """Keys that the recipes read of their configuration: `cfg.x` and `cfg.get("x")`."""
    keys = set()
    for path in (root / "recipes").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cfg":
                keys.add(node.attr)
            is_get = isinstance(node, ast.Call) and ast.unparse(node.func) in ("cfg.get", "self.cfg.get", "config.get")
            if is_get and node.args and isinstance(node.args[0], ast.Constant):
                keys.add(node.args[0].value)
    return keys - {"get", "pop", "items", "keys"}


def of_trl(root):
    files = [root / "trl/trainer" / name for name in ("base_config.py", "sft_config.py", "model_config.py")]
    known = classes([*files, root / "trl/scripts/utils.py"])
    return set().union(*[fields_of(name, known) for name in ("SFTConfig", "ModelConfig", "ScriptArguments")])


def of_transformers(root):
    return fields_of("TrainingArguments", classes([root / "transformers/training_args.py"]))


def of_accelerate(root):
    known = classes([root / "accelerate/commands/config/config_args.py"])
    return fields_of("ClusterConfig", known)


def of_deepspeed(root):
    """Names of the configuration's fields at the root: constants of its modules, and its models' fields."""
    keys = set()
    source = next(root.glob("deepspeed-*"))
    constants = {}
    for path in (source / "deepspeed/runtime").glob("**/constants.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                constants[node.targets[0].id] = node.value.value
    reader = ast.parse((source / "deepspeed/runtime/config.py").read_text())
    for node in ast.walk(reader):
        is_read = isinstance(node, ast.Call) and ast.unparse(node.func) in ("get_scalar_param", "get_dict_param", "get_list_param")
        if is_read and ast.unparse(node.args[0]) == "param_dict":
            name = node.args[1]
            keys.add(constants.get(name.id) if isinstance(name, ast.Name) else getattr(name, "value", None))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In):
            if ast.unparse(node.comparators[0]) == "param_dict" and isinstance(node.left, ast.Name):
                keys.add(constants.get(node.left.id))
    return keys - {None}


READERS = {
    "axolotl": (of_axolotl, "axolotl"),
    "llamafactory": (of_llamafactory, "llama_factory"),
    "torchtune": (of_torchtune, "torchtune"),
    "trl": (of_trl, "trl"),
    "transformers": (of_transformers, "transformers"),
    "accelerate": (of_accelerate, "accelerate"),
    "deepspeed": (of_deepspeed, "deepspeed"),
}


def table(name):
    """The patterns of a table's keys, those of the table that it extends included."""
    read = yaml.safe_load((TABLES / f"{name}.yaml").read_text())
    keys = set(read.get("keys") or {})
    for group in ("idle", "lost", "refused"):
        for entry in read.get(group) or []:
            keys.update(entry["keys"])
    cases = [case for decision in read.get("decisions") or [] for case in decision] + (read.get("unplanned") or [])
    for case in cases:
        keys.update(case.get("when") or {})
        keys.update(value[1:] for value in (case.get("set") or {}).values() if str(value).startswith("$"))
    if read.get("extends"):
        keys |= table(read["extends"].replace("-", "_"))
    return keys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="packages to check; default: all")
    parser.add_argument("--list", action="store_true", help="print every key of the packages instead")
    arguments = parser.parse_args()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for package in arguments.packages:
            root, version = download(package, pathlib.Path(folder))
            read, name = READERS[package]
            keys = read(root)
            if arguments.list:
                print(*sorted(keys))
                continue
            known = table(name)
            is_known = lambda key: any(key == own or own.startswith(f"{key}.") or fnmatch.fnmatch(key, own) for own in known)
            new = sorted(key for key in keys if not is_known(key))
            count += len(new)
            print(f"{package} {version}: {len(keys)} keys, {len(new)} new", *new)
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
