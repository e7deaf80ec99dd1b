"""Samples as TRL prepares them for training: token ids, and the tokens that are predicted.

    python python/data/make_masks.py > tests/fixtures/masks.json

Written with TRL 1.16.0 and transformers 5.23.0, by the code of SFTTrainer that prepares a data set. The tokenizer is that of the
presets, as it is or with special tokens that it adds. `targets` has the predicted tokens as ranges; a sample that TRL leaves
out, because its predicted tokens are cut off, has none.
"""

import json
import logging
import pathlib
import sys
import tempfile
from types import SimpleNamespace

from datasets import Dataset, disable_progress_bars
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

ROOT = pathlib.Path(__file__).parents[2]

TURNS = """{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

# The generation prompt has an empty thought that the conversation drops.
THOUGHT = """{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|><think></think>' }}{%- endif %}"""

MARKED = """{# {% generation %} #}{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|assistant|>' }}{% generation %}{{ message.content + '<|end|>' }}{% endgeneration %}{{- '\\n' }}
{%- else %}
{{- '<|' + message.role + '|>' + message.content + '<|end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

TEMPLATES = dict(turns=TURNS, thought=THOUGHT, marked=MARKED, turns_bos="{{- bos_token }}" + TURNS)


def added(id, content):
    """A special token as in tokenizer.json."""
    return dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)


def around(*tokens):
    """A post-processor that adds these tokens where a text is `$A`."""
    single = [dict(Sequence=dict(id="A", type_id=0)) if token == "$A" else dict(SpecialToken=dict(id=token, type_id=0)) for token in tokens]
    special = {token: dict(id=token, ids=[IDS[token]], tokens=[token]) for token in tokens if token != "$A"}
    return dict(type="TemplateProcessing", single=single, pair=single, special_tokens=special)


# What a checkpoint has over the presets' tokenizer. Its `eos_token` is not the one of its config.json, as in chat models.
IDS = {"<|endoftext|>": 0, "<s>": 512, "<|end|>": 513}
SPECIAL = dict(
    added_tokens=[added(id, token) for token, id in IDS.items()],
    tokenizer_config=dict(bos_token="<s>", eos_token="<|end|>"),
)
TOKENIZERS = dict(
    bos=dict(**SPECIAL, post_processor=around("<s>", "$A")),
    bos_eos=dict(**SPECIAL, post_processor=around("<s>", "$A", "<|end|>")),
)


def user(text):
    return dict(role="user", content=text)


def assistant(text):
    return dict(role="assistant", content=text)


PAIRS = [
    dict(prompt="What floats?", completion=" A cork floats."),
    dict(prompt="What floats? ", completion="A cork floats."),
    dict(prompt="The riv", completion="er keeps it."),
    dict(prompt="", completion="A cork."),
    dict(prompt="naïve €5 漢", completion="字 🙂"),
    dict(prompt="The end:\n", completion="\n\nA cork.<|endoftext|>"),
]
CHATS = [
    dict(prompt=[user("What floats?")], completion=[assistant("A cork.")]),
    dict(prompt=[user("What floats?"), assistant("A cork."), user("And?")], completion=[assistant("A leaf."), user("No."), assistant("Yes.")]),
    dict(prompt=[dict(role="system", content="Be brief."), user("é?")], completion=[assistant("漢字")]),
]
CONVERSATIONS = [
    dict(messages=[user("What floats?"), assistant("A cork."), user("And?"), assistant("A leaf does, too.")]),
    dict(messages=[assistant("Hello."), user("Hello."), assistant("What floats?")]),
]
TEXTS = [
    dict(text="A cork floats."),
    dict(text="The end.<|end|>"),
    dict(text="The end.<|endoftext|>"),
]
ENDED = [*PAIRS[:2], PAIRS[3], dict(prompt="The end:", completion=" A cork.<|end|>")]

CASES = [
    dict(samples=PAIRS),
    dict(samples=PAIRS, completion_only_loss=False),
    dict(samples=PAIRS, max_length=8),
    dict(samples=CHATS, template="turns"),
    dict(samples=CHATS, template="thought"),
    dict(samples=CHATS, template="turns", completion_only_loss=False),
    dict(samples=CHATS, template="turns", max_length=40),
    dict(samples=CHATS, template="marked", assistant_only_loss=True),
    dict(samples=CHATS, template="marked", assistant_only_loss=True, completion_only_loss=False),
    dict(samples=CONVERSATIONS, template="turns"),
    dict(samples=CONVERSATIONS, template="marked", assistant_only_loss=True),
    dict(samples=CONVERSATIONS, template="marked", assistant_only_loss=True, max_length=24),
    dict(samples=TEXTS),
    *[
        case
        for tokenizer in TOKENIZERS
        for case in [
            dict(samples=TEXTS, tokenizer=tokenizer),
            dict(samples=TEXTS, tokenizer=tokenizer, max_length=5),
            dict(samples=ENDED, tokenizer=tokenizer),
            dict(samples=ENDED, tokenizer=tokenizer, max_length=9),
            dict(samples=CHATS[:1], tokenizer=tokenizer, template="turns_bos"),
            dict(samples=CONVERSATIONS[:1], tokenizer=tokenizer, template="turns_bos", max_length=24),
            dict(samples=CONVERSATIONS[:1], tokenizer=tokenizer, template="marked", assistant_only_loss=True),
        ]
    ],
]


def ranges(labels):
    """The ranges of labels that count."""
    found, start = [], None
    for place, label in enumerate([*labels, -100]):
        if label != -100 and start is None:
            start = place
        if label == -100 and start is not None:
            found.append([start, place])
            start = None
    return found


def load(name):
    """The presets' tokenizer, or a checkpoint's with what `TOKENIZERS` has under this name."""
    file = ROOT / "data" / "tokenizer.json"
    if name is None:
        return PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<|endoftext|>")
    checkpoint = dict(TOKENIZERS[name])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer_config.json").write_text(json.dumps(checkpoint.pop("tokenizer_config")))
        (folder / "tokenizer.json").write_text(json.dumps(json.loads(file.read_text()) | checkpoint))
        return PreTrainedTokenizerFast.from_pretrained(folder)


def prepared(sample, case, tokenizer):
    """The sample as TRL would train on it; nothing if TRL leaves it out."""
    args = SFTConfig(
        output_dir=tempfile.gettempdir(),  # nothing is written
        max_length=case["max_seq_length"],
        assistant_only_loss=case["assistant_only_loss"],
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    trainer = SimpleNamespace(
        _tokenizer=tokenizer,
        completion_only_loss=case["completion_only_loss"],
        chat_template=None,
    )
    dataset = SFTTrainer._prepare_dataset(trainer, Dataset.from_list([sample]), tokenizer, args, False, None, "train")
    return list(dataset)


def main():
    disable_progress_bars()
    logging.disable(logging.WARNING)
    cases = []
    for case in CASES:
        case = dict(
            tokenizer=case.get("tokenizer"),
            template=case.get("template"),
            max_seq_length=case.get("max_length", 256),
            completion_only_loss=case.get("completion_only_loss", "messages" not in case["samples"][0]),
            assistant_only_loss=case.get("assistant_only_loss", False),
            samples=case["samples"],
        )
        tokenizer = load(case["tokenizer"])
        tokenizer.chat_template = TEMPLATES.get(case["template"])
        case["prepared"] = []
        for sample in case["samples"]:
            rows = prepared(sample, case, tokenizer)
            case["prepared"].append([dict(ids=row["input_ids"], targets=ranges(row["labels"])) for row in rows])
        cases.append(case)
    json.dump(dict(templates=TEMPLATES, tokenizers=TOKENIZERS, cases=cases), sys.stdout, ensure_ascii=False)
    print()


main()
