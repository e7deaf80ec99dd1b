"""Reads an exported memory snapshot with PyTorch's own tools (CONTRIBUTING.md, "Exports").

    python python/export/check_snapshot.py SNAPSHOT [RECORD]

SNAPSHOT is what `expctl export CELL --format pytorch` wrote; with RECORD, the cell's record.json, the highest point of
the trace must be the cell's allocated_peak_bytes.
"""

import json
import pickle
import re
import sys

from torch.cuda import _memory_viz as viz


def lines(text):
    """In the place of flamegraph.pl, which would be downloaded."""
    return text


def main(path, record=None):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    trace = snapshot["device_traces"][0]

    live, highest = {}, 0
    allocated = 0
    for entry in trace:
        if entry["action"] == "alloc":
            assert entry["addr"] not in live, f"{entry['addr']:#x} is allocated twice"
            live[entry["addr"]] = entry["size"]
            allocated += entry["size"]
        elif entry["action"] == "free_completed":
            assert live.pop(entry["addr"]) == entry["size"], f"{entry['addr']:#x} changed its size"
            allocated -= entry["size"]
        highest = max(highest, allocated)

    blocks = {
        block["address"]: block["size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    assert blocks == {address: size for address, size in live.items() if size}, "the segments are not the trace's end"
    assert "unknown" in {entry.get("category") for entry in trace}, "memory_viz needs this category"

    outputs = {
        "trace": viz.trace(snapshot),
        "segsum": viz.segsum(snapshot),
        "segments": viz.segments(snapshot, format_flamegraph=lines),
        "memory": viz.memory(snapshot, format_flamegraph=lines),
        "trace_plot": viz.trace_plot(snapshot),
        "segment_plot": viz.segment_plot(snapshot),
    }
    in_flamegraph = sum(int(count) for count in re.findall(r"active_allocated;.* (\d+)$", outputs["memory"], re.M))
    assert in_flamegraph == allocated, "the flame graph has another sum"
    for name, output in outputs.items():
        assert output, name
        print(f"{name}: {len(output):,} characters")
    print(f"{len(trace):,} entries, highest point {highest:,} bytes, {allocated:,} at the end")

    if record is not None:
        with open(record) as file:
            peak = json.load(file)["measured"]["allocated_peak_bytes"]
        assert highest == peak, f"the record has {peak:,}"
        print("the highest point is the record's peak")


if __name__ == "__main__":
    main(*sys.argv[1:])
