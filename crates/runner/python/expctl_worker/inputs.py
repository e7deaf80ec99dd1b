"""The inputs of a training: those that expctl's own trainer would have, which a process of expctl writes."""
import json, os, pathlib, subprocess, sys


class Inputs:
    """The cell, and where its weights and batches lie."""

    def __init__(self, answer):
        self.answer = answer
        self.cell = answer["cell"]
        self.model = answer["model"]
        self.adapter = answer["adapter"]
        self.start = set(answer["start"])
        self.trained = answer["trained"]
        self.learning_rates = answer["learning_rates"]
        self.tokens_per_step = answer["tokens_per_step"]
        self.parameter_count = answer["parameter_count"]
        self.data_sha256 = answer["data_sha256"]
        self.remarks = answer["remarks"]
        self.samples_left_out = answer["samples_left_out"]
        self.provenance = answer["provenance"]
        self.batches, self.held_out = answer["batches"], answer["held_out"]

    @classmethod
    def ask(cls, given):
        """Has expctl write the inputs of a cell. The run says where expctl is and where they go. Another rank may have asked."""
        if "EXPCTL_ANSWER" in os.environ:
            return cls(json.loads(pathlib.Path(os.environ["EXPCTL_ANSWER"]).read_text()))
        program, folder = os.environ["EXPCTL_PROGRAM"], pathlib.Path(os.environ["EXPCTL_INPUTS"])
        own = folder / given.folder.name
        line = [program, "inputs", given.folder, "--base-dir", given.base_dir, "--own", own, "--shared", folder / "weights",
                "--parent", str(os.getpid())]
        line += ["--trial"] if given.trial else []
        line += ["--adapter-config-sha256", given.adapter_config_sha256] if given.adapter_config_sha256 else []
        answer = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        words = answer.stderr.decode(errors="replace").strip()
        if answer.returncode:
            sys.exit(words or f"expctl wrote no inputs (exit code {answer.returncode})")
        return cls(json.loads(answer.stdout))

    def steps(self):
        """The steps in their order, each read when its turn comes."""
        return lines(self.batches)

    def held_out_batches(self):
        return lines(self.held_out) if self.held_out else []


def lines(path):
    with open(path) as file:
        for line in file:
            yield json.loads(line)


def tensors(micro, device, cell):
    """What the model is given of a micro-batch. Packed samples lie in one row, and positions begin anew with each."""
    import torch

    sequences, lengths = micro["sequences"], micro["lengths"]
    ids, is_packed = torch.tensor(micro["ids"]), cell["packing"]
    # A virtual token would predict the first one of a row.
    has_virtual = cell["rank"] and cell["adapter"] == "prompt_tuning"
    rows = (1, -1) if is_packed else (len(sequences), -1)
    given = {"input_ids": ids.view(rows).to(device)}
    if is_packed:
        given["position_ids"] = torch.cat([torch.arange(length) for length in sequences]).view(rows).to(device)
    elif any(length < row for length, row in zip(lengths, sequences)):
        columns = torch.arange(sequences[0])
        given["attention_mask"] = (columns < torch.tensor(lengths)[:, None]).long().to(device)
    if micro["labels"]:
        given["labels"] = torch.tensor(micro["labels"]).to(device)
    elif not is_packed and not has_virtual and len(micro["predicted"]) + len(sequences) == len(ids):
        # Every token but the first of each row is predicted.
        given["labels"] = given["input_ids"]
    else:
        labels = torch.full_like(ids, -100)
        labels[micro["predicted"]] = ids[micro["predicted"]]
        given["labels"] = labels.view(rows).to(device)
    return given
