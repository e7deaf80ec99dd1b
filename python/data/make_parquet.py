"""Parquet files: a column of conversations, as data sets of the hub have it, a column of each other type, and small files
of large samples.

    python python/data/make_parquet.py tests/fixtures

Written with pyarrow 26.0.1.
"""

import datetime
import pathlib
import sys

import pyarrow
import pyarrow.parquet

ROWS = [
    [dict(role="user", content="What floats?"), dict(role="assistant", content="A cork.")],
    [dict(role="assistant", content=None)],
]

folder = pathlib.Path(sys.argv[1])
message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
table = pyarrow.table({"id": [1, 2], "messages": pyarrow.array(ROWS, pyarrow.list_(message))})
pyarrow.parquet.write_table(table, folder / "messages.parquet", row_group_size=1)

moment = datetime.datetime(2024, 7, 26, 12)
dated = pyarrow.struct([("content", pyarrow.string()), ("time", pyarrow.timestamp("us"))])
types = pyarrow.table(
    {
        "text": ["a"],
        "date": pyarrow.array([moment.date()], pyarrow.date32()),
        "time": pyarrow.array([moment], pyarrow.timestamp("us")),
        "bytes": pyarrow.array([b"a"], pyarrow.binary()),
        "messages": pyarrow.array([[dict(content="a", time=moment)]], pyarrow.list_(dated)),
    }
)
pyarrow.parquet.write_table(types, folder / "types.parquet")

# A conversation of ten million messages, and a text of 200 million letters.
messages = [{"role": "user", "content": "a"}] * 10_000_000
pyarrow.parquet.write_table(pyarrow.table({"messages": [messages]}), folder / "long_list.parquet", compression="zstd")
text = pyarrow.table({"text": ["a" * 200_000_000]})
options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
pyarrow.parquet.write_table(text, folder / "long_text.parquet", **options)
