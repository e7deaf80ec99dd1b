"""Compares transformers' token ids with expctl's, for the tokenizers of many families.

    python python/data/check_tokenizers.py [--expctl target/release/expctl] [--plain] FOLDER ...

A folder has a tokenizer.json, tokenizer_config.json and a config.json with its `model_type`; its name begins with that of its
family. `--plain` compares with tokenizer.json as the library `tokenizers` reads it, in place of expctl. It prints a line per folder,
the first text that differs, and the families of `FAMILIES` that no folder is named after. The exit code is 1 if ids differ.

Written with transformers 5.24.0. Texts are compared with the special tokens that the tokenizer puts around a text, and, for
`--plain`, without them.
"""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer
from transformers import AutoTokenizer

FAMILIES = """bert cohere deberta deepseek distilbert falcon gemma gemma3 glm gpt2 gptneox granite llama2 llama3 ministral mistral
mixtral modernbert olmo olmo2 opt phi3 phi4 qwen2 qwen3 roberta smollm2 smollm3 starcoder2 tinyllama xlmroberta""".split()

PROSE = "The river keeps what it is given: a cork, a leaf, and once a boat of paper. "

TEXTS = [
    # English
    "Hello",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "It's what they've said; we'll see, I'd guess, they're RIGHT, don't you?",
    "IT'S WHAT THEY'VE SAID, WE'LL SEE",
    "a",
    "``Quoted'' and \"quoted\" – dashes — and ellipses…",
    "e-mail: someone@example.org, https://example.org/a_b?c=d&e=%20#f",
    "CamelCaseWords snake_case_words SCREAMING_CASE kebab-case",
    # Code
    "def f(x):\n    return x ** 2  # a comment\n\n\nprint(f(3))\n",
    "fn main() {\n\tlet v: Vec<u8> = vec![1, 2, 3];\n\tprintln!(\"{v:?}\");\n}\n",
    "<div class=\"a\"><p>x &amp; y</p></div>",
    "SELECT * FROM t WHERE a != 'b' AND c >= 10;",
    "if (a&&b||!c) { d <<= 2; e->f(); }",
    "\\begin{equation} \\frac{a}{b}_{i}^{2} \\end{equation}",
    # Numbers
    "1",
    "12",
    "123 1234 12345 123456",
    "3.14159 -2,718,281.8 1e-5 0x1F 50% €5 $5.00",
    "2024-02-29T12:34:56Z +49 (0)30 123456",
    "٣٤٥ ४५६ ²³ ½ Ⅷ",
    # Spaces
    " ",
    "  ",
    "\n",
    "\t",
    " Hello",
    "Hello ",
    "  Hello  ",
    "\nHello\n",
    "Hello  world   three    four     five",
    "a\tb\t\tc",
    "a\n\nb\r\nc\r\rd",
    " \n \n\t \n",
    "trailing\n\n\n",
    "a\u00a0b\u2003c\u200bd\u3000e\ufefff",
    " " * 40 + "end" + " " * 40,
    # Other scripts
    "漢字仮名交じり文、そして。カタカナ",
    "你好，世界！我们在这里。",
    "한국어 문장입니다.",
    "Привет, мир! Ёжик",
    "שלום עולם مرحبا بالعالم",
    "नमस्ते दुनिया สวัสดีชาวโลก",
    "🙂 👍🏽 👩‍👩‍👧‍👦 🇩🇪 a🙂b",
    "naïve café Ångström ÀÉÎÕÜ ß ŒŽ ﬁ",
    "cafe\u0301 n\u0303 A\u030a e\u0323\u0302 \u1112\u1161\u11ab",
    "İstanbul ıI ǅ Σσς",
    "ＡＢＣ１２３ ①②③ ㎏ ℌ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠮷",
    "\u0000\u0001\u007f\u0085 control",
    # Pieces of tokenizers' own spelling
    "▁ ▁a Ġ Ċ ##ing <0x41> </w> @@",
    "",
    # Long
    PROSE * 12,
    "ab" * 150,
    "word " * 200,
    "".join(chr(code) for code in range(0x20, 0x180)),
    "\n".join("    " * depth + "if x:" for depth in range(8)),
]

# How special tokens are put in texts. `{}` is one of the tokenizer's.
AROUND = ["{}", "a{}b", "a {} b", "{}\nHello{}\n", "  {}  ", "{}{}"]


def texts_of(folder):
    """The texts, and some with the folder's special tokens."""
    added = [token["content"] for token in json.loads((folder / "tokenizer.json").read_text()).get("added_tokens") or []]
    some = dict.fromkeys(["<s>", "</s>", "<unk>", "<mask>", "<|endoftext|>", *added[:4], *added[-4:]])
    return [text for text in [*TEXTS, *(form.replace("{}", token) for token in some for form in AROUND)] if text]


def ids_of_transformers(folder, texts, special=True):
    """The ids, and the class that AutoTokenizer takes."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text, add_special_tokens=special)["input_ids"] for text in texts], type(tokenizer).__name__


def ids_of_file(folder, texts, special=True):
    """The ids of tokenizer.json as it is."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return [tokenizer.encode(text, add_special_tokens=special).ids for text in texts]


# The sizes of a small model, in each family's words: a configuration needs them, whatever the tokenizer is.
SIZES = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=10**6,
             max_position_embeddings=10**6, rms_norm_eps=1e-6, dim=64, hidden_dim=128, n_layers=2, n_heads=4, type_vocab_size=2)


def ids_of_expctl(folder, texts, expctl):
    """The ids that expctl trains on."""
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        for file in folder.iterdir():
            (place / file.name).write_bytes(file.read_bytes())
        config = json.loads((folder / "config.json").read_text()) if (folder / "config.json").exists() else {}
        (place / "config.json").write_text(json.dumps(SIZES | config | dict(hidden_act=None, pad_token_id=0, attention_dropout=0.0)))
        (place / "texts.jsonl").write_text("".join(json.dumps(dict(text=text, label=0)) + "\n" for text in texts))
        command = [expctl, "data", str(place / "texts.jsonl"), "--model", str(place), "--format", "json"]
        command += ["--samples", str(len(texts)), "--set", "max_seq_length=100000"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(" ".join(done.stderr.split()))
    found = json.loads(done.stdout)["ids"]
    assert len(found) == len(texts), f"{len(found)} samples of {len(texts)}"
    return found


def differences(folder, texts, expctl):
    """Tuples of a text, transformers' ids and the others, where they differ; and the class."""
    found = []
    for special in [True] if expctl else [True, False]:
        theirs, name = ids_of_transformers(folder, texts, special)
        ours = ids_of_expctl(folder, texts, expctl) if expctl else ids_of_file(folder, texts, special)
        for text, their, our in zip(texts, theirs, ours, strict=True):
            if their != our:
                found.append((special, text, their, our))
    return found, name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--expctl", default="expctl")
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    folders = arguments.folders
    wrong = 0
    for folder in folders:
        begin = time.monotonic()
        texts = texts_of(folder)
        try:
            found, name = differences(folder, texts, None if arguments.plain else arguments.expctl)
        except Exception as error:
            # Families whose models are not planned, and presets of no family.
            is_unknown = "model family" in str(error) or "model_type" in str(error)
            print(f"{folder.name}: not compared: {str(error)[:150]}")
            wrong += not is_unknown
            continue
        print(f"{folder.name} ({name}): {len(found)} differ, of {len(texts)} texts, {time.monotonic() - begin:.1f} s", flush=True)
        if found:
            wrong += 1
            special, text, their, our = min(found, key=lambda one: len(one[1]))
            print(f"  {text!r}{'' if special else ' without special tokens'}\n    transformers {their[:24]}\n    {'file' if arguments.plain else 'expctl'} {our[:24]}")
    names = [folder.name.replace("_", "").replace("-", "") for folder in folders]
    missing = [family for family in FAMILIES if not any(name.startswith(family) for name in names)]
    if missing:
        print("without files:", ", ".join(missing))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
