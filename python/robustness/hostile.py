"""Hostile chat templates, report templates, tokenizers, expressions and data files: each command ends in time.

    python python/robustness/hostile.py EXPCTL [--only WORD]

Every case is a folder with a spec. `validate`, `plan`, `run` and `report` must each end within 5 s, take less than 1 GB,
and exit with 0, 1, 2 or 3: no panic, no signal. Needs Python 3.9 and no packages.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/fixtures/tiny_llama"
TOKENIZER = ROOT / "crates/data/embedded/tokenizer.json"
CHAT = {"messages": [{"role": "user", "content": "who are you"}, {"role": "assistant", "content": "a river"}]}

LIMIT_SECONDS, LIMIT_BYTES = 5.0, 1e9


def loops(body, rounds=40):
    """A template that repeats `body`, which changes `ns.s`."""
    return f"{{% set ns = namespace(s='ab', l=['a'], d={{'a': 1}}) %}}{{% for i in range({rounds}) %}}{body}{{% endfor %}}{{{{ ns.s }}}}"


def templates():
    """Jinja that loops, grows or nests."""
    yield "endless", "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}x{% endfor %}{% endfor %}{% endfor %}"
    yield "silent loops", "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = a %}{% endfor %}{% endfor %}"
    yield "tilde", loops("{% set ns.s = ns.s ~ ns.s %}")
    yield "tilde and text", loops("{% set ns.s = ns.s ~ ns.s ~ 'x' %}", 60)
    yield "plus", loops("{% set ns.s = ns.s + ns.s %}")
    yield "lists", loops("{% set ns.l = ns.l + ns.l %}")
    yield "list of lists", loops("{% set ns.l = [ns.l, ns.l, ns.l] %}") + "{{ ns.l }}"
    yield "printed lists", loops("{% set ns.l = [ns.l, ns.l] %}", 30) + "{{ ns.l|tojson }}"
    yield "deep lists", loops("{% for j in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}", 1000)
    yield "deepest lists", loops("{% for j in range(10000) %}{% set ns.l = [ns.l] %}{% endfor %}", 300)
    yield "deep lists, printed", loops("{% for j in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}", 100) + "{{ ns.l }}"
    yield "deep lists, as JSON", loops("{% for j in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}", 100) + "{{ ns.l|tojson }}"
    yield "deep maps", loops("{% for j in range(1000) %}{% set ns.d = {'a': ns.d} %}{% endfor %}", 100) + "{{ ns.d == ns.d }}"
    yield "maps", loops("{% set ns.d = {'a': ns.d, 'b': ns.d} %}") + "{{ ns.d|length }}{{ ns.d }}"
    yield "compared lists", loops("{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l == [ns.l] }}"
    yield "sorted lists", loops("{% set ns.l = [ns.l, ns.l] %}") + "{{ [ns.l, ns.l]|sort }}"
    yield "replace", loops("{% set ns.s = ns.s|replace('a', 'aa') %}", 60)
    yield "replace of nothing", loops("{% set ns.s = ns.s|replace('', 'ab') %}", 60)
    yield "replace method", loops("{% set ns.s = ns.s.replace('a', 'aaa') %}", 60)
    yield "join", loops("{% set ns.s = [ns.s, ns.s, ns.s]|join(ns.s) %}")
    yield "join method", loops("{% set ns.s = ns.s.join([ns.s, ns.s]) %}")
    yield "times", "{{ 'a' * 10000000000 }}"
    yield "list times", "{{ [1] * 10000000000 }}"
    yield "times times", loops("{% set ns.s = ns.s * 1000 %}")
    yield "power", "{{ 9 ** 9 ** 9 }}{{ 2 ** 4000000000 }}"
    yield "indent", "{{ ('a\\n' * 1000)|indent(1000000000) }}"
    yield "indent by doubling", loops("{% set ns.s = (ns.s ~ '\\n' ~ ns.s)|indent(100000) %}")
    yield "tojson indent", "{{ messages|tojson(indent=4000000000) }}"
    yield "tojson separators", loops("{% set ns.s = ns.s ~ ns.s %}", 20) + "{{ range(100000)|list|tojson(separators=[ns.s, ns.s]) }}"
    yield "range", "{{ range(100000000000)|list|length }}"
    yield "range step", "{{ range(0, 100000000000, 0)|list }}"
    yield "slice filter", "{{ range(10)|slice(10000000000)|list|length }}"
    yield "batch filter", "{{ range(10)|batch(10000000000, 'x')|list|length }}"
    yield "slices", loops("{% set ns.s = ns.s[::1] ~ ns.s[-9999999999:] %}")
    yield "center", "{{ 'a'.center(10000000000) }}"
    yield "ljust", "{{ 'a'.ljust(10000000000) }}"
    yield "zfill", "{{ 'a'.zfill(10000000000) }}"
    yield "format", "{{ '%10000000000d'|format(1) }}"
    yield "format method", "{{ '{:>10000000000}'.format('a') }}"
    yield "split", loops("{% set ns.s = ns.s ~ ns.s %}", 24) + "{% for i in range(1000) %}{% set x = ns.s.split('b') %}{% endfor %}"
    yield "list of text", loops("{% set ns.s = ns.s ~ ns.s %}", 24) + "{% for i in range(1000) %}{% set x = ns.s|list %}{% endfor %}"
    yield "upper", loops("{% set ns.s = ns.s ~ ns.s %}", 26) + "{% for i in range(100000) %}{% set x = ns.s|upper %}{% endfor %}"
    yield "length", loops("{% set ns.s = ns.s ~ ns.s %}", 26) + "{% for i in range(100000) %}{% set x = ns.s|length %}{% endfor %}"
    yield "in", loops("{% set ns.s = ns.s ~ ns.s %}", 26) + "{% for i in range(100000) %}{% set x = 'zz' in ns.s %}{% endfor %}"
    yield "reverse", loops("{% set ns.s = ns.s ~ ns.s %}", 26) + "{% for i in range(100000) %}{% set x = ns.s|reverse %}{% endfor %}"
    yield "sort", loops("{% set ns.l = ns.l + ns.l %}", 20) + "{% for i in range(100000) %}{% set x = ns.l|sort|unique|list %}{% endfor %}"
    yield "groupby", loops("{% set ns.l = ns.l + [{'a': i}] %}", 1000) + "{% for i in range(100000) %}{% set x = ns.l|selectattr('a')|map(attribute='a')|list %}{% endfor %}"
    yield "macros", "{% macro a() %}xxxxxxxx{% endmacro %}" + "".join(
        f"{{% macro {chr(98 + i)}() %}}{{{{ {chr(97 + i)}() }}}}{{{{ {chr(97 + i)}() }}}}{{% endmacro %}}" for i in range(24)) + "{{ y() }}"
    yield "recursive macro", "{% macro a(n) %}{{ a(n + 1) }}{% endmacro %}{{ a(0) }}"
    yield "macro with macro", "{% macro a(f) %}{{ f(f) }}{{ f(f) }}{% endmacro %}{{ a(a) }}"
    yield "set block", loops("{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}")
    yield "filter block", "{% filter upper %}" * 100 + "x" + "{% endfilter %}" * 100
    yield "recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"
    yield "loop over itself", loops("{% for x in ns.l %}{% set ns.l = ns.l + [x] %}{% endfor %}")
    yield "deep parentheses", "{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}"
    yield "deep brackets", "{{ " + "[" * 100000 + "]" * 100000 + " }}"
    yield "many operands", "{{ " + " + ".join(["1"] * 200000) + " }}"
    yield "many conditions", "{{ " + " and ".join(["messages"] * 24000) + " }}"
    yield "many nots", "{{ " + "not " * 100000 + "1 }}"
    yield "many minuses", "{{ " + "-" * 300000 + "1 }}"
    yield "many filters", "{{ 'a'" + "|upper" * 100000 + " }}"
    yield "many attributes", "{{ messages" + ".a" * 100000 + " }}"
    yield "many tests", "{{ 1" + " is defined" * 50000 + " }}"
    yield "many calls", "{{ messages" + "()" * 100000 + " }}"
    yield "many subscripts", "{{ messages" + "[0]" * 100000 + " }}"
    yield "many ifs", "{% if 1 %}" * 20000 + "{% endif %}" * 20000
    yield "many elifs", "{% if 0 %}" + "{% elif 0 %}" * 60000 + "{% endif %}"
    yield "many conditionals", "{{ " + "1 if 1 else " * 50000 + "1 }}"
    yield "many fors", "{% for a in [1] %}" * 10000 + "{% endfor %}" * 10000
    yield "many comments", "{# a #}" * 100000
    yield "open comment", "{#" * 200000
    yield "open raw", "{% raw %}" * 100000
    yield "large", "x" * 3000000
    yield "include itself", "{% include 'chat_template.jinja' %}"
    yield "include a pipe", "{% include 'pipe.jinja' %}"
    yield "extends itself", "{% extends 'chat_template.jinja' %}"
    yield "include zero", "{% include '/dev/zero' %}"
    yield "escape codes", "{{ raise_exception('\\x1b[2J\\x1b]0;x\\x07') }}{{ '\x1b[31m' }}"


def tokenizers():
    """Changes of the tokenizer of the presets."""
    base = json.loads(TOKENIZER.read_text())

    def changed(**keys):
        return json.dumps({**base, **keys})

    def replaces(pattern, content, count):
        one = {"type": "Replace", "pattern": pattern, "content": content}
        return {"type": "Sequence", "normalizers": [one] * count}

    def split(pattern, behaviour="Isolated"):
        return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behaviour, "invert": False}

    for name, pattern, content, count in [
        ("doubling rules", {"String": "a"}, "aa", 60),
        ("tripling rules", {"String": "e"}, "eee", 30),
        ("empty pattern", {"String": ""}, "ab", 1),
        ("empty patterns", {"String": ""}, "ab", 40),
        ("empty regex", {"Regex": ""}, "ab", 40),
        ("regex of all", {"Regex": "."}, "abc" * 100, 8),
        ("long content", {"String": "a"}, "b" * 10_000_000, 1),
        ("long content twice", {"String": "a"}, "a" * 100_000, 2),
        ("backtracking", {"Regex": "(a+)+$"}, "b", 1),
        ("backtracking twice", {"Regex": "(a|aa)+b"}, "b", 1),
        ("look-around", {"Regex": "(?=(a+))\\1*b"}, "b", 1),
        ("large repeat", {"Regex": "((a{1000}){1000}){1000}"}, "b", 1),
        ("bad regex", {"Regex": "("}, "b", 1),
        ("huge class", {"Regex": "[\\w\\W]{0,100000}"}, "b", 1),
    ]:
        yield name, changed(normalizer=replaces(pattern, content, count))
    nested = None
    for _ in range(100):
        nested = {"type": "Sequence", "normalizers": [nested] if nested else []}
    yield "nested normalizers", changed(normalizer=nested)
    yield "deep JSON", changed()[:-1] + ', "x": ' + "[" * 100000 + "]" * 100000 + "}"
    yield "prepend", changed(normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "x" * 1000000}] * 100})
    yield "nmt and NFKD", changed(normalizer={"type": "Sequence", "normalizers": [{"type": kind} for kind in ["NFKD", "Nmt", "NFKC", "Lowercase", "StripAccents", "ByteLevel"] * 20]})
    yield "byte level again and again", changed(normalizer={"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 40})
    yield "charsmap", changed(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA////"})
    yield "empty charsmap", changed(normalizer={"type": "Precompiled", "precompiled_charsmap": ""})
    yield "strip", changed(normalizer={"type": "Strip", "strip_left": True, "strip_right": True})
    for name, pattern in [
        ("split backtracking", "(\\w+\\s?)+$"), ("split empty", ""), ("split look-behind", "(?<=a)b|(?<!a)c"),
        ("split back-reference", "(.*)\\1\\1x"), ("split recursion", "(?<a>\\g<a>a|b)"), ("split any", "(.|\\n)*?(.|\\n)*?z"),
        ("split start", "\\G"), ("split word edges", "\\b|\\B"),
    ]:
        yield name, changed(pre_tokenizer=split(pattern))
    yield "many splits", changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [split("a|")] * 200})
    yield "metaspace", changed(pre_tokenizer={"type": "Metaspace", "replacement": "▁▁", "prepend_scheme": "always", "split": True})
    yield "metaspace again", changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}] * 100})
    yield "unknown special token", changed(post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [], "special_tokens": {}})
    yield "no single", changed(post_processor={"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})
    piece, token = {"SpecialToken": {"id": "x", "type_id": 0}}, {"id": "x", "ids": [0] * 1000, "tokens": ["x"] * 1000}
    yield "many special tokens", changed(post_processor={"type": "TemplateProcessing", "single": [piece] * 100000 + [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"x": token}})
    yield "text many times", changed(post_processor={"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 100000, "pair": [], "special_tokens": {}})
    yield "nested processors", changed(post_processor={"type": "Sequence", "processors": [base.get("post_processor") or {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}] * 1000})
    yield "bert processor", changed(post_processor={"type": "BertProcessing", "sep": ["x", 4294967295], "cls": ["y", 4294967295]})
    yield "roberta processor", changed(post_processor={"type": "RobertaProcessing", "sep": ["x", 1], "cls": ["y", 2], "trim_offsets": True, "add_prefix_space": True})
    yield "huge ids", changed(model={**base["model"], "vocab": {token: 4294967295 - id for token, id in base["model"]["vocab"].items()}})
    yield "negative ids", changed(model={**base["model"], "vocab": {"a": -1}})
    yield "equal ids", changed(model={**base["model"], "vocab": {token: 0 for token in base["model"]["vocab"]}})
    yield "no vocabulary", changed(model={**base["model"], "vocab": {}, "merges": []})
    yield "bad merges", changed(model={**base["model"], "merges": [["x", "y"]] * 10})
    yield "odd merges", changed(model={**base["model"], "merges": ["a", "a b c", ""]})
    yield "unknown of none", changed(model={**base["model"], "unk_token": "none"})
    yield "drop-out", changed(model={**base["model"], "dropout": 0.5})
    yield "drop-out of all", changed(model={**base["model"], "dropout": 2.0})
    yield "byte fall-back", changed(model={**base["model"], "byte_fallback": True, "fuse_unk": True})
    yield "unigram", changed(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -1e308]], "byte_fallback": True})
    yield "unigram without", changed(model={"type": "Unigram", "unk_id": None, "vocab": []})
    yield "unigram beyond", changed(model={"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]})
    yield "word piece", changed(model={"type": "WordPiece", "unk_token": "x", "continuing_subword_prefix": "", "max_input_chars_per_word": 18446744073709551615, "vocab": {"a": 0}})
    yield "word level", changed(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"})
    yield "added tokens", changed(added_tokens=[{"id": i, "content": "a" * (i + 1), "single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": False} for i in range(3000)])
    yield "empty added token", changed(added_tokens=[{"id": 0, "content": "", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": True}])
    yield "truncation", changed(truncation={"direction": "Left", "max_length": 0, "strategy": "OnlySecond", "stride": 100000})
    yield "padding", changed(padding={"strategy": {"Fixed": 10000000000}, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 4294967295, "pad_type_id": 0, "pad_token": ""})
    yield "not JSON", "{" * 1000
    yield "empty", ""
    yield "null", "null"
    yield "other version", changed(version="99.0")
    yield "no model", json.dumps({key: value for key, value in base.items() if key != "model"})


def expressions():
    """Conditions and formulas that loop, grow or nest."""
    for name, text in [
        ("many operands", " or ".join(["rank == 3"] * 24000)), ("many nots", "not " * 24000 + "rank"),
        ("parentheses", "(" * 9000 + "rank" + ")" * 9000), ("times", "'a' * 10000000000 == 'b'"),
        ("list times", "[1] * 10000000000 == []"), ("power", "9 ** 9 ** 9 ** 9 > 1"), ("range", "range(10000000000)|list|length > 1"),
        ("range of ranges", "range(100000)|list|tojson|length * 3 > range(100000)|map('string')|join|length"),
        ("indent", "('a\\n' * 1000)|indent(1000000000) == ''"), ("center", "'a'.center(10000000000) == ''"),
        ("format", "'%10000000000d'|format(1) == ''"), ("join", "(range(100000)|list)|join('a' * 100000) == ''"),
        ("replace", "('a' * 100000)|replace('a', 'a' * 100000) == ''"), ("slice", "range(10)|slice(10000000000)|list == []"),
        ("batch", "range(10)|batch(10000000000, 1)|list == []"), ("division", "1 / 0 > 1"), ("remainder", "1 % 0 == 1"),
        ("floor", "(-9223372036854775807 - 1) // -1 > 1"), ("overflow", "9223372036854775807 + 1 > 0 and 9223372036854775807 * 9 > 0"),
        ("text and number", "'a' + 1 > 2"), ("not a condition", "rank"), ("undefined", "nothing > 1"), ("attribute", "rank.a.b.c > 1"),
        ("call", "rank() > 1"), ("filter", "rank|nothing > 1"), ("test", "rank is nothing"), ("empty", ""), ("open", "rank =="),
        ("text", "'"), ("escape codes", "'\x1b[31m' == rank.x"), ("nested lists", "[" * 140 + "]" * 140 + " == rank"),
        ("conditionals", "1 if rank else " * 300 + "1 == 1"), ("minuses", "-" * 4000 + "1 > 1"), ("calls", "rank" + "()" * 2000),
    ]:
        yield name, text


def data_files():
    """Files of texts that are damaged, deep, long or no files."""
    line = json.dumps({"text": "the river keeps it"}) + "\n"
    yield "deep JSON", "a.jsonl", '{"text": ' + "[" * 100000 + "]" * 100000 + "}\n"
    yield "deep array", "a.json", "[" * 1000000
    yield "deep object", "a.json", '{"a":' * 1000000
    yield "long line", "a.jsonl", '{"text": "' + "a" * 15_000_000 + '"}\n'
    yield "too long a line", "a.jsonl", '{"text": "' + "ab " * 30_000_000 + '"}\n'
    yield "long word", "a.txt", "a" * 15_000_000
    yield "long words", "a.jsonl", (json.dumps({"text": "ab" * 50_000}) + "\n") * 20
    yield "no line end", "a.jsonl", "{" * 40_000_000
    yield "many columns", "a.jsonl", json.dumps({f"c{i}": i for i in range(100_000)} | {"text": "a b c"}) + "\n"
    yield "many lines", "a.jsonl", line * 50_000
    yield "empty lines", "a.jsonl", "\n" * 1_000_000 + line
    yield "numbers", "a.jsonl", '{"text": 1e999}\n'
    yield "equal keys", "a.jsonl", '{"text": "a", "text": "b c d"}\n'
    yield "surrogates", "a.jsonl", '{"text": "\\ud800 a"}\n'
    yield "control characters", "a.jsonl", '{"text": "a\x1b[31m b"}\n'
    yield "escape codes as a column", "a.jsonl", '{"\\u001b[2Jx": "a"}\n'
    yield "bytes", "a.jsonl", bytes(range(256)) * 100
    yield "NUL", "a.txt", b"a\0b"
    yield "BOM", "a.jsonl", b"\xef\xbb\xbf" + line.encode()
    yield "UTF-16", "a.txt", "a river".encode("utf-16")
    yield "open quote", "a.csv", 'text\n"' + "a,\n" * 10_000_000
    yield "quotes", "a.csv", "text\n" + '"""' * 1_000_000
    yield "wide CSV", "a.csv", ",".join(f"c{i}" for i in range(100_000)) + ",text\n" + "1," * 100_000 + "a b\n"
    yield "uneven CSV", "a.csv", "text,b\n1\n1,2,3\n"
    yield "messages of messages", "a.jsonl", json.dumps({"messages": [CHAT] * 3}) + "\n"
    yield "many messages", "a.jsonl", json.dumps({"messages": CHAT["messages"] * 100_000}) + "\n"
    yield "roles", "a.jsonl", json.dumps({"messages": [{"role": "\x1b[31m", "content": 3}]}) + "\n"
    yield "empty messages", "a.jsonl", json.dumps({"messages": []}) + "\n"
    yield "folder", "a.jsonl", None
    yield "pipe", "a.jsonl", "pipe"
    yield "link to itself", "a.jsonl", "link"
    yield "nothing", "a.jsonl", ""
    generator = random.Random(7)
    parquet = [path for path in sorted((ROOT / "tests/fixtures").glob("*.parquet"))]
    for path in parquet:
        yield f"parquet {path.name}", "a.parquet", path.read_bytes()
    for index in range(40):
        path = parquet[index % len(parquet)]
        damaged = bytearray(path.read_bytes())
        for _ in range(generator.choice([1, 1, 3, 20])):
            # The metadata at the end are what a reader trusts.
            near_end = generator.random() < 0.7
            at = generator.randrange(max(0, len(damaged) - 700), len(damaged)) if near_end else generator.randrange(len(damaged))
            damaged[at] = generator.choice([0, 255, damaged[at] ^ 1 << generator.randrange(8)])
        yield f"parquet {index}", "a.parquet", bytes(damaged)


def write(path, content):
    if content is None:
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content == "link":
        path.symlink_to(path.name)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)


def spec(folder, data="{ path: chat.jsonl }", more=""):
    defaults = f"{{ model: ./model, weights: random, dtype: float32, max_seq_length: 64, batch_size: 1, max_steps: 1, data: {data} }}"
    (folder / "spec.yaml").write_text(f"name: x\ndefaults: {defaults}\n{more}\n")


def model(folder):
    (folder / "model").mkdir()
    config = json.loads((MODEL / "config.json").read_text())
    (folder / "model/config.json").write_text(json.dumps({**config, "vocab_size": 512, "max_position_embeddings": 512}))
    shutil.copy(TOKENIZER, folder / "model/tokenizer.json")
    (folder / "model/tokenizer_config.json").write_text('{"chat_template": "{{ messages[0].content }}{{ messages[1].content }}"}')


def cases():
    """Each: a name, what makes its folder, and the commands to try."""
    run = [["validate", "spec.yaml"], ["plan", "spec.yaml"], ["run", "spec.yaml", "--progress", "plain"]]
    for name, text in templates():
        def chat(folder, text=text):
            (folder / "chat_template.jinja").write_text(text)
            spec(folder, "{ path: chat.jsonl, chat_template: chat_template.jinja }")
        yield f"chat template: {name}", chat, run

        def report(folder, text=text):
            (folder / "chat_template.jinja").write_text(text.replace("messages", "cells"))
            os.mkfifo(folder / "pipe.jinja")
            spec(folder, "synthetic", "report: { template: chat_template.jinja }")
        yield f"report template: {name}", report, [["validate", "spec.yaml"], ["run", "spec.yaml"], ["report", "spec.yaml"]]
    for name, text in tokenizers():
        def tokenizer(folder, text=text):
            (folder / "model/tokenizer.json").write_text(text)
            spec(folder)
        yield f"tokenizer: {name}", tokenizer, run
    for name, text in expressions():
        def exclude(folder, text=text):
            spec(folder, "synthetic", "sweep: { grid: { rank: [2, 4] }, exclude: " + json.dumps(text) + " }")
        yield f"exclude: {name}", exclude, run

        def claim(folder, text=text):
            text = text.replace("rank", "mean('allocated_peak_bytes')")
            claim = {"claim": "It is so.", "source": "somebody", "measured": {"x": {"value": text}}, "holds": text}
            spec(folder, "synthetic", "claims: " + json.dumps([claim]))
        yield f"claim: {name}", claim, [["validate", "spec.yaml"], ["run", "spec.yaml", "--progress", "plain"]]
    for name, file, content in data_files():
        def data(folder, file=file, content=content):
            write(folder / file, content)
            spec(folder, f"{{ path: {file} }}")
        yield f"data: {name}", data, run


def measure(command, folder):
    """Exit code, seconds, peak bytes and output of a command."""
    started = time.monotonic()
    with open(folder / ".out", "wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - started > 4 * LIMIT_SECONDS:
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
            break
        time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    return process.returncode, seconds, usage.ru_maxrss * 1024, (folder / ".out").read_text(errors="replace")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("expctl", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--show", action="store_true", help="print what each command says last")
    arguments = parser.parse_args()
    expctl, wrong, count, commands, slowest, largest = arguments.expctl.resolve(), [], 0, 0, (0, ""), (0, "")
    for name, make, tried in cases():
        if arguments.only not in name:
            continue
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model(folder)
            (folder / "chat.jsonl").write_text((json.dumps(CHAT) + "\n") * 3)
            make(folder)
            for command in tried:
                commands += 1
                code, seconds, peak, output = measure([expctl, *command], folder)
                faults = []
                if code not in (0, 1, 2, 3) or "panicked" in output and "library" not in output:
                    faults.append(f"exit code {code}")
                if "SIGABRT" in output or "SIGSEGV" in output:
                    faults.append("a child crashed")
                if seconds > LIMIT_SECONDS:
                    faults.append(f"{seconds:.1f} s")
                if peak > LIMIT_BYTES:
                    faults.append(f"{peak / 1e9:.2f} GB")
                if "\x1b" in output:
                    faults.append("escape codes")
                slowest, largest = max(slowest, (seconds, name)), max(largest, (peak, name))
                last = output.strip().splitlines()[-1][:150] if output.strip() else ""
                if arguments.show:
                    print(f"{name}: {command[0]}: {code}, {seconds:.2f} s, {peak / 1e6:.0f} MB: {last}")
                if faults:
                    wrong.append(f"{name}: {command[0]}: {', '.join(faults)}: {last}")
                    print(wrong[-1], flush=True)
    print(f"{count} cases, {commands} commands, {len(wrong)} wrong; slowest {slowest[0]:.1f} s ({slowest[1]}), "
          f"largest {largest[0] / 1e6:.0f} MB ({largest[1]})")
    return 1 if wrong else 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
