"""Compares the rows that Python's `datasets` reads of data files with those that expctl reads.

    python python/data/check_files.py [--expctl target/release/expctl] [--all] [NAME ...]

Each case is a file or a folder, the options of `load_dataset` that read it, and the keys of `data` that do, by the same names.
It prints a line per case, without `--all` only of those that are not equal:

    equal      the same columns, number of rows and first three rows; or both refuse the file
    refused    expctl ends with exit code 2 and an error that names what is not done
    more       expctl reads what datasets refuse
    decided    they differ as `DECIDED` says
    different  anything else: both sides are shown, and the exit code is 1

NAME runs the cases whose names begin with it. Written with datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1, zstandard and lz4.
"""

import argparse
import bz2
import datetime
import decimal
import gzip
import io
import json
import lzma
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

TEMPORARY = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=TEMPORARY.name, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")  # datasets read them when imported

import datasets  # noqa: E402
import lz4.frame  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import zstandard  # noqa: E402

CASES = {}

# Cases that differ on purpose, and why.
DECIDED = {
    "version_and_data.json": "the only array of an object is the data",
    "dates.jsonl": "dates stay the texts that they are",
    "names_twice.csv": "names of columns stay as they are",
    "no_names.csv": "names of columns stay as they are",
    "index.csv of pandas": "names of columns stay as they are",
    "document.txt": "the end of a file's last line is no text",
    "paragraph.txt": "blank lines part paragraphs, however many there are",
    "blank.txt": "a blank line is no sample",
    "bom.txt": "a mark of the byte order is no text",
    "dir: deep": "folders below are read if a folder has no data itself",
    "dir: formats": "files of all formats are read",
    "dir: one of each format": "files of all formats are read",
    "types.csv": "values are texts",
    "zeros.csv": "values are texts",
    "int_and_empty.csv": "values are texts, and an empty one is",
} | {f"{kind}.parquet": "values of this type are not read: an error where the column is used" for kind in (
    "categories", "date", "timestamp", "time", "duration", "decimal", "binary", "fixed_list")} | {f"na_{number}.csv": "values are texts, and `NA` is one" for number in range(9)}

# The values of these files are texts, as they are written: a number is compared with its text.
OF_TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

# The readers of `datasets` by the ends of names, for calls with options: these name the reader in place of the folder.
READERS = dict(jsonl="json", json="json", csv="csv", tsv="csv", txt="text", parquet="parquet")


def case(name, files, path=None, split="train", reader=None, **options):
    """A case: `files` has the content of one file, whose name is the first word of the case's, or of files of a folder."""
    if not isinstance(files, dict):
        path = name.split(" ")[0]
        files = {path: files}
    keys = dict(options)
    keys |= {"format": {"json": "jsonl"}.get(reader, reader)} if reader else {}
    keys |= {"sample_by": options.get("sample_by", "line")} if any(".txt" in file or ".md" in file for file in files) else {}
    keys |= {"split": split} if split != "train" else {}
    reader = reader or (READERS[path.rsplit(".", 1)[1]] if options else None)
    assert name not in CASES, name
    files = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    CASES[name] = dict(files=files, keys=keys, path=path, split=split, reader=reader, options=options)


def cases(of):
    """Cases by their names: the files, or these with options."""
    for name, files in of.items():
        files, options = files if isinstance(files, tuple) else (files, {})
        case(name, files, **options)


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def zipped(files):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def parquet(columns, **options):
    target = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), target, **options)
    return target.getvalue()


TEXTS = ["A cork floats.", "The river keeps what it is given.", "naïve €5 漢字 🙂"]
ROWS = [dict(text=text) for text in TEXTS]
JSONL, ROW, ARRAY, TXT = lines(*ROWS), lines(*ROWS[:1]), json.dumps(ROWS), "".join(text + "\n" for text in TEXTS)
CSV = 'text,n\n"A cork, ""it"" floats.",1\nThe river keeps.,2\n"two\nlines",3\n'
TSV = "text\tn\nA cork, it floats.\t1\nThe river keeps.\t2\n"
MESSAGES = [dict(role="user", content="What floats?"), dict(role="assistant", content="A cork.")]
CALL = dict(role="assistant", content=None, tool_calls=[dict(type="function", function=dict(name="f", arguments=dict(x=1)))])

# Extensions, compressions and archives
cases({"a.jsonl": JSONL, "a.ndjson": JSONL, "a.json of lines": JSONL, "a.csv": CSV, "a.tsv": TSV, "a.txt": TXT})
cases({"a.JSONL": JSONL, "a.geoparquet": parquet(dict(text=TEXTS)), "a.zip of two": zipped({"b.jsonl": ROW, "a.jsonl": JSONL})})
case("a.data as json", JSONL, reader="json")
case("a.md as text", TXT, reader="text")
for end, compress in dict(gz=gzip.compress, bz2=bz2.compress, xz=lzma.compress, zst=zstandard.compress, lz4=lz4.frame.compress).items():
    case(f"a.jsonl.{end}", compress(JSONL.encode()))
for end, content in dict(json=ARRAY, csv=CSV, tsv=TSV, txt=TXT).items():
    case(f"a.{end}.gz", gzip.compress(content.encode()))
ZIPPED = gzip.compress(JSONL.encode())
cases({"a.jsonl.GZ": ZIPPED, "a.jsonl of gzip": ZIPPED, "a.jsonl.gz that is cut": ZIPPED[:-20], "a.jsonl.gz that is plain": JSONL})
cases({"a.jsonl.gz of members": 2 * ZIPPED, "a.jsonl.zst of frames": 2 * zstandard.compress(JSONL.encode())})

# JSON: what a file is
cases({"crlf.jsonl": JSONL.replace("\n", "\r\n"), "blank.jsonl": "\n" + JSONL.replace("\n", "\n\n  \n"), "no_end.jsonl": JSONL[:-1]})
cases({"bom.jsonl": "\ufeff" + JSONL, "bom_array.json": "\ufeff" + ARRAY, "array.jsonl": ARRAY, "array_after_space.json": "\n " + ARRAY})
cases({"array_pretty.json": json.dumps(ROWS, indent=2), "array_strings.json": json.dumps(TEXTS), "array_numbers.json": "[1, 2, 3]"})
cases({"array_arrays.json": '[["a", "b"], ["c"]]', "two_arrays.jsonl": ARRAY + "\n" + ARRAY})
cases({"object.json": ROW, "object_pretty.json": json.dumps(dict(text="one", n=1), indent=2)})
cases({"objects_pretty.json": "\n".join(json.dumps(row, indent=2) for row in ROWS), "concatenated.jsonl": JSONL.replace("\n", "")})
cases({"columns.json": json.dumps(dict(text=TEXTS, n=[1, 2, 3])), "by_index.json": json.dumps(dict(text={"0": "one", "1": "two"}))})
cases({"version_and_data.json": json.dumps(dict(version=1, data=ROWS)), "commas.jsonl": JSONL.replace("\n", ",\n")})
case("field.json", json.dumps(dict(version=1, data=ROWS)), field="data")
case("field_columns.json", json.dumps(dict(data=dict(text=TEXTS))), field="data")
case("field_strings.json", json.dumps(dict(data=TEXTS)), field="data")
case("field_dates.json", json.dumps(dict(data=[dict(text="one", date=1700000000)])), field="data")
cases({"empty.jsonl": "", "blank_only.jsonl": "\n\n", "empty_objects.jsonl": "{}\n{}\n", "broken_line.jsonl": JSONL + '{"text": \n'})
case("latin1.jsonl", '{"text": "corkë"}\n'.encode("latin-1"), encoding="latin-1")
case("latin1.jsonl not told", '{"text": "corkë"}\n'.encode("latin-1"))
case("utf16.jsonl", JSONL.encode("utf-16"), encoding="utf-16")

# JSON: values
cases({"missing_key.jsonl": lines(dict(text="one", n=1), dict(text="two"), dict(n=3))})
cases({"array_ragged.json": json.dumps([dict(text="one"), dict(text="two", n=1), dict(n=2)])})
cases({"null.jsonl": lines(dict(text="one", n=None), dict(text=None, n=None), dict(text="three", n=None))})
cases({"int_and_float.jsonl": '{"n": 1}\n{"n": 2.5}\n{"n": 1e3}\n', "int_and_string.jsonl": '{"n": 1}\n{"n": "two"}\n{"n": null}\n'})
cases({"text_or_messages.jsonl": lines(dict(content="one"), dict(content=[dict(type="text", text="two")]))})
cases({"json_in_text.jsonl of mixed values": '{"a": "007"}\n{"a": [1]}\n{"a": "[1]"}\n'})
cases({"nested_keys_differ.jsonl": lines(dict(a=dict(b=1)), dict(a=dict(c="x")), dict(a={}))})
cases({"messages_with_tools.jsonl": lines(dict(messages=MESSAGES, tools=[]), dict(messages=[MESSAGES[0], CALL], tools=[dict(name="f")]))})
cases({"dates.jsonl": lines(dict(text="a", at="2024-02-29 12:34:56")), "some_dates.jsonl": lines(dict(at="2024-02-29"), dict(at="x"))})
cases({"nan.jsonl": '{"n": NaN}\n{"n": 1.5}\n', "infinity.jsonl": '{"n": Infinity}\n'})
cases({"big_int.jsonl": '{"n": 18446744073709551615}\n{"n": 1}\n'})
cases({"escapes.jsonl": r'{"text": "a\u00e9\ud83d\ude42\n\t\"\\\/"}', "nul.jsonl": r'{"text": "a\u0000b"}'})
cases({"separators.jsonl": '{"text": "one\u2028two\u0085three"}\n{"text": "four"}\n', "duplicate_keys.jsonl": '{"text": "a", "text": "b"}\n'})

# CSV: the form of a file
cases({"crlf.csv": CSV.replace("\n", "\r\n"), "cr.csv": "text,n\rone,1\rtwo,2\r", "bom.csv": "\ufeff" + CSV, "no_end.csv": CSV[:-1]})
cases({"blank_lines.csv": "\ntext,n\n\none,1\n\n  \ntwo,2\n", "one_column.csv": "text\none\n\ntwo\n", "semicolon.csv not told": "text;n\na;1\n"})
cases({"quote_within.csv": 'text,n\none "two" three,1\n', "quote_after.csv": 'text,n\n"one" two,1\n', "quote_open.csv": 'text,n\n"two,2\n'})
cases({"escaped.csv not told": 'text,n\n"one \\"two\\" three",1\n', "spaces.csv": "text , n\n  one  , 1\n two, 2\n", "nul.csv": "text,n\na\0b,1\n"})
cases({"names_twice.csv": "text,n,n\none,1,2\n", "no_names.csv": "text,,\none,1,2\n", "index.csv of pandas": ",text\n0,one\n1,two\n"})
cases({"short_row.csv": "text,n,m\none,1\ntwo,2,3\n", "long_row.csv": "text,n\none,1\ntwo,2,3\n", "long_rows.csv": "text,n\none,1,x\ntwo,2,y\n"})
cases({"comma_at_end.csv": "text,n\none,1,\ntwo,2,\n", "empty.csv": "", "header_only.csv": "text,n\n", "latin1.csv not told": b"text\ncork\xeb\n"})
cases({
    "semicolon.csv": ("text;n\none;1\ntwo, and;2\n", dict(sep=";")), "no_header.csv": ("one,1\ntwo,2\n", dict(header=None)),
    "names.csv": ("one,1\ntwo,2\n", dict(names=["text", "n"])), "renamed.csv": ("a,b\none,1\n", dict(names=["text", "n"], header=0)),
    "skiprows.csv": ("a file\nof mine\ntext,n\none,1\n", dict(skiprows=2)), "usecols.csv": (CSV, dict(usecols=["text"])),
    "quotechar.csv": ("text,n\n'one, two',1\n", dict(quotechar="'")), "quoting.csv": ('text,n\n"one,1\n', dict(quoting=3)),
    "escapechar.csv": ('text,n\n"one \\"two\\", three",1\n', dict(escapechar="\\")),
    "comment.csv": ("# a file\ntext,n\none,1 # x\n", dict(comment="#")),
    "skipinitialspace.csv": ('text, n\none, "a, b"\n', dict(skipinitialspace=True)),
    "on_bad_lines.csv": ("text,n\none,1\ntwo,2,3\nfour,4\n", dict(on_bad_lines="skip")),
    "encoding.csv": ("text,n\n“cork” €5,1\n".encode("cp1252"), dict(encoding="cp1252")),
    "encoding_errors.csv": (b"text,n\na\xff,1\n", dict(encoding_errors="replace")),
    "keep_default_na.csv": ("text,n\nNA,1\n,2\n", dict(keep_default_na=False)), "na_values.csv": ("text,n\n-,1\nx,2\n", dict(na_values=["-"])),
    "thousands.csv": ('text,n\none,"1,234"\n', dict(thousands=",")), "decimal.csv": ("text;n\none;1,5\n", dict(sep=";", decimal=",")),
})  # fmt: skip
case("tabs.txt as csv", TSV, reader="csv", sep="\t")

# CSV: values
cases({"types.csv": "text,i,f,b,e\none,1,0.5,True,\ntwo,-2,1e3,false,\nthree,3,2,TRUE,\n", "zeros.csv": "text,n\n007,1\n010,2\n"})
cases({"int_and_empty.csv": "text,n\none,1\ntwo,\n", "bool_and_empty.csv": "b,n\nTrue,1\n,2\n", "bools_and_ints.csv": "b\nTrue\n1\n"})
cases({"numbers_as_text.csv": "text,n\n1,1\n2.5,2\nthree,3\n", "floats.csv": "n\n0.1\n1.7976931348623157e308\n.5\n", "inf.csv": "n\ninf\n1\n"})
cases({"big_int.csv": "n\n18446744073709551615\n", "thousands.csv not told": 'n\n"1,234"\n', "dates.csv": "text,at\none,2024-02-29\n"})
cases({f"na_{number}.csv": f"text,n\n{word},1\nx,2\n" for number, word in enumerate(["", "NA", "null", "None", '""', '"NA"', "-", "#N/A"])})
case("messages.csv", "messages\n" + '"' + json.dumps(MESSAGES).replace('"', '""') + '"\n')

# Text
PARAGRAPHS = "one\ntwo\n\n\nthree\n\n\n\nfour\n \nfive\r\n\r\nsix\n"
cases({"blank.txt": "one\n\ntwo\n \nthree\n\n", "crlf.txt": TXT.replace("\n", "\r\n"), "cr.txt": TXT.replace("\n", "\r")})
cases({"spaces.txt": "  one  \n\ttwo\n", "separators.txt": "one\u2028two\x0bthree\x0cfour\u0085five\nsix\n", "bom.txt": "\ufeff" + TXT})
cases({"nul.txt": "a\0b\n", "empty.txt": "", "latin1.txt not told": "corkë\n".encode("latin-1")})
case("keep_linebreaks.txt", TXT, keep_linebreaks=True)
case("paragraph.txt", PARAGRAPHS, sample_by="paragraph")
case("document.txt", PARAGRAPHS, sample_by="document")
case("encoding.txt", "corkë\n".encode("latin-1"), encoding="latin-1")

# Parquet
STRUCT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
NUMBERS = dict(u64=pa.array([2**64 - 1, 3], pa.uint64()), f16=pa.array([1, 2.5], pa.float16()), f32=pa.array([0.1, math.nan], pa.float32()))
LABELS = pa.table(dict(text=TEXTS, label=[0, 1, 0]))
FEATURES = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["no", "yes"]))
cases({"numbers.parquet": parquet(NUMBERS), "nulls.parquet": parquet(dict(text=["a", None], b=[True, None], none=pa.nulls(2)))})
cases({"messages.parquet": parquet(dict(messages=pa.array([MESSAGES, MESSAGES[:1], None], STRUCT)))})
cases({"nested.parquet": parquet(dict(a=[dict(b=[[1], []], c=dict(d="x")), dict(b=None, c=None)]))})
cases({"row_groups.parquet": parquet(dict(text=[f"text {n}" for n in range(1000)]), row_group_size=100)})
cases({f"{codec}.parquet": parquet(dict(text=TEXTS), compression=codec) for codec in ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]})
cases({"class_label.parquet": parquet(LABELS.replace_schema_metadata(FEATURES.arrow_schema.metadata)), "cut.parquet": parquet(LABELS)[:-9]})
for name, value, dtype in [
    ("categories", "a", pa.dictionary(pa.int32(), pa.string())), ("large_string", "a", pa.large_string()), ("view", "a", pa.string_view()),
    ("date", datetime.date(2024, 2, 29), None), ("timestamp", datetime.datetime(2024, 2, 29, 12), None), ("time", datetime.time(12), None),
    ("duration", datetime.timedelta(seconds=5), None), ("decimal", decimal.Decimal("1.50"), None), ("binary", b"ab", None),
    ("map", [("a", 1)], pa.map_(pa.string(), pa.int64())), ("fixed_list", [1, 2], pa.list_(pa.int64(), 2)), ("large_list", [1], pa.large_list(pa.int64())),
]:  # fmt: skip
    case(f"{name}.parquet", parquet(dict(text=TEXTS[:2], x=pa.array([value, None], dtype))))
case("columns.parquet", parquet(LABELS), columns=["text"])
case("filters.parquet", parquet(LABELS), filters=[("label", "==", 1)])

# Folders
a, b, c = (lines(row) for row in ROWS)
CARD = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: x/*.csv\n  sep: ';'\n---\n"
for name, files in {
    "by name": {"b.jsonl": b, "a.jsonl": a, "10.jsonl": c},
    "README, hidden and private files": {"a.jsonl": a, "README.md": "x", ".b.jsonl": b, "__c__/c.jsonl": c, ".d/d.jsonl": b},
    "descriptions": {"a.jsonl": a, "dataset_info.json": "{}", "config.json": "{}", "LICENSE": "x", "notes.md": "x"},
    "deep": {"x/a.jsonl": a, "x/y/b.jsonl": b, "c.jsonl": c},
    "parts": {"data/train-00000-of-00002.jsonl": a, "data/train-00001-of-00002.jsonl": b, "data/test-00000-of-00001.jsonl": c},
    "split folders": {"train/a.jsonl": a, "test/a.jsonl": b},
    "folders before names": {"train/test.jsonl": a, "test/train.jsonl": b},
    "only a test file": {"test.jsonl": a},
    "other files beside splits": {"train.jsonl": a, "more.jsonl": b},
    "formats": {"a.jsonl": a, "b.jsonl": b, "c.csv": CSV},
    "one of each format": {"a.jsonl": a, "c.csv": "text\none\n", "d.txt": "two\n"},
    "a column less": {"a.jsonl": lines(dict(text="x", n=1)), "b.jsonl": a},
    "a column more": {"a.jsonl": a, "b.jsonl": lines(dict(text="x", n=1))},
    "a card that names files": {"README.md": CARD, "x/a.csv": "text;n\none;1\n", "b.csv": "text;n\ntwo;2\n"},
    **{f"{word}.jsonl": {f"{word}.jsonl": a, "test.jsonl": b} for word in ["training", "Train", "my-train-2"]},
}.items():
    case(f"dir: {name}", files)
for word, split in dict(dev="validation", val="validation", eval="test").items():
    case(f"dir: {word}.jsonl as {split}", {f"{word}.jsonl": a, "train.jsonl": b}, split=split)
case("dir: a split of one's own", {"data/gold-00000-of-00001.jsonl": a, "data/train-00000-of-00001.jsonl": b}, split="gold")
for split in ["train[:2]", "train[50%:]", "train+test"]:
    case(f"dir: split {split}", {"train.jsonl": JSONL, "test.jsonl": b}, split=split)
case("glob", {"a.jsonl": a, "b.jsonl": b, "c.json": c}, path="*.jsonl")


def plain(value):
    """A value as JSON has it: NaN is null, and what JSON does not have is named by its type."""
    match value:
        case dict():
            return {key: plain(value) for key, value in value.items()}
        case list():
            return [plain(value) for value in value]
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        case str() | int() | float() | None:
            return value
    return f"{type(value).__name__} {value}"


def of_datasets(case, folder):
    """What `load_dataset` reads, or its error."""
    files = {} if case["path"] is None else dict(data_files=str(folder / case["path"]))
    try:
        cache = tempfile.mkdtemp(dir=TEMPORARY.name)
        source = case["reader"] or str(folder)
        table = datasets.load_dataset(source, split=case["split"], cache_dir=cache, **files, **case["options"])
        first = [plain(row) for row in table.select(range(min(3, len(table))))]
        return dict(columns=table.column_names, rows=len(table), first=first)
    except Exception as error:
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {' '.join(str(cause).replace(str(folder), '').split())}"


def of_expctl(expctl, case, folder):
    """What `expctl data` reads, or its error. Exit codes other than 0 and 2 are no answer."""
    keys = [f"--set=data.{key}={json.dumps(value)}" for key, value in case["keys"].items()]
    path = str(folder / (case["path"] or "."))
    done = subprocess.run([expctl, "data", path, "--format", "json", "--samples", "3", *keys], capture_output=True, text=True, timeout=60)
    if "unrecognized subcommand" in done.stderr:
        sys.exit(f"`{expctl}` has no command `data`")
    match done.returncode:
        case 0:
            return json.loads(done.stdout)
        case 2:
            return " ".join(done.stderr.replace(str(folder), "").split())
    raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-300:]}")


def same_form(read, is_of_texts):
    """What is compared: columns in any order, and rows with null where a row has no value. Types of numbers count."""
    columns = sorted(read["columns"])
    value = lambda given: str(given) if is_of_texts and given is not None else given
    rows = [{column: value(row.get(column)) for column in columns} for row in read["first"]]
    return json.dumps([columns, read["rows"], rows])


def compare(theirs, ours, is_of_texts):
    """The verdict, and what to show."""
    match theirs, ours:
        case str(), str():
            return "equal", f"both refuse; datasets: {theirs[:80]}; expctl: {ours[:80]}"
        case _, str():
            return "refused", ours[:160]
        case str(), _:
            return "more", theirs[:160]
        case _ if same_form(theirs, is_of_texts) == same_form(ours, is_of_texts):
            return "equal", ""
    return "different", f"\n    datasets {json.dumps(theirs, ensure_ascii=False)[:400]}\n    expctl   {json.dumps(ours, ensure_ascii=False)[:400]}"


def written(case, folder):
    """Writes the files of a case."""
    for name, content in case["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--expctl", default="target/release/expctl")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(60)
    counts = {}
    for name, case in CASES.items():
        if args.names and not name.startswith(tuple(args.names)):
            continue
        folder = pathlib.Path(tempfile.mkdtemp(dir=TEMPORARY.name))
        written(case, folder)
        try:
            verdict, shown = compare(
                of_datasets(case, folder), of_expctl(args.expctl, case, folder), any(file.endswith(OF_TEXTS) for file in case["files"]))
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
            verdict, shown = "different", f"expctl: {error}"
        if verdict == "different" and name in DECIDED:
            verdict, shown = "decided", DECIDED[name]
        counts[verdict] = counts.get(verdict, 0) + 1
        if args.all or verdict != "equal":
            print(f"{verdict:9}  {name}  {shown}".rstrip(), flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    sys.exit(1 if counts.get("different") else 0)


if __name__ == "__main__":
    main()
