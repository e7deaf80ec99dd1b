"""A Parquet file with a column of conversations, as data sets of the hub have it.

    python python/data/make_parquet.py tests/fixtures/messages.parquet

Written with pyarrow 26.0.1.
"""

import sys

import pyarrow
import pyarrow.parquet

ROWS = [
    [dict(role="user", content="What floats?"), dict(role="assistant", content="A cork.")],
    [dict(role="assistant", content=None)],
]

message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
table = pyarrow.table({"id": [1, 2], "messages": pyarrow.array(ROWS, pyarrow.list_(message))})
pyarrow.parquet.write_table(table, sys.argv[1], row_group_size=1)
