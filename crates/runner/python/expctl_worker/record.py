"""The figures of a run, from its steps, by the rules of expctl's own trainer."""
import statistics

# The first step makes the optimizer's state, the second still fills caches.
WARM_UP = 2


def spread(values):
    """The interquartile range over the median; None of a single value."""
    if len(values) < 2:
        return None
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def measured(steps, memory, more):
    """The `measured` of a record. `memory` and `more` have figures of other parts."""
    timed = steps[min(WARM_UP, max(len(steps) - 1, 0)):]
    at_ends = [step["allocated_bytes"] for step in steps if step["allocated_bytes"] is not None]
    used = [step["system_used_percent"] for step in steps if step["system_used_percent"] is not None]
    figures = {
        "steps": len(steps), "steps_timed": len(timed), "loss_first": steps[0]["loss"], "loss_last": steps[-1]["loss"],
        "step_seconds_median": statistics.median(step["seconds"] for step in timed),
        "step_seconds_spread": spread([step["seconds"] / step["tokens"] for step in timed]),
        "tokens_per_second": statistics.median(step["tokens"] / step["seconds"] for step in timed),
        "real_tokens_per_second": statistics.median(step["real_tokens"] / step["seconds"] for step in timed),
        "train_seconds": sum(step["seconds"] for step in steps),
        "tokens": sum(step["tokens"] for step in steps), "real_tokens": sum(step["real_tokens"] for step in steps),
        "system_used_peak_percent": max(used, default=None),
        "allocated_mean_bytes": round(statistics.fmean(at_ends)) if at_ends else None,
        "allocated_min_bytes": min(at_ends, default=None),
        "memory_efficiency": min(at_ends) / max(at_ends) if at_ends and max(at_ends) else None,
        "allocated_peak_by_category": {}, "allocated_peak_in_phase": {}, **memory, **more,
    }
    return {name: value for name, value in figures.items() if value is not None or name in ["loss_first", "loss_last"]}


def of_ranks(figures):
    """The figures of the rank with the highest peak; with those of all, if there are several."""
    kinds = ["allocated_peak_bytes", "reserved_peak_bytes", "process_peak_bytes"]
    highest = max(figures, key=lambda own: own.get(kinds[0]) or own.get(kinds[2]) or 0)
    if len(figures) == 1:
        return highest
    return highest | {"ranks": [{kind: own[kind] for kind in kinds if own.get(kind) is not None} for own in figures]}


def provenance(inputs, found):
    """Who measured, and where. A GPU is named as PyTorch names it."""
    return {**inputs.provenance, **found, "data_sha256": inputs.data_sha256, "device": inputs.cell["device"]}
