"""Writes measures over events as CSV: a line of titles, then a row a bucket."""

from __future__ import annotations

from memreplay.commands.timeline.result import Series, TimelineReport
from memreplay.texts import clean

COLUMNS = (
    "device",
    "measure",
    "event_index",
    "bucket_events",
    "time_us",
    "min_bytes",
    "max_bytes",
    "max_event",
)
REST = "(others)"


def render_timeline_csv(report: TimelineReport) -> str:
    """Lines without the last one's end. Stacked, there is a column a group; those of devices and
    measures that have a group of the same name share its column."""
    import csv
    from io import StringIO

    titles: dict[str, None] = {}
    for series in report.devices:
        titles |= dict.fromkeys(_titles(series))
    stacked = report.by is not None
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *titles, *([REST] if stacked else [])])
    for series in report.devices:
        layers = dict(zip(_titles(series), (y.bytes for y in series.layers), strict=True))
        columns = [layers.get(title) for title in titles]
        buckets = series.buckets
        rows = zip(
            buckets.event_index,
            buckets.events,
            buckets.time_us,
            buckets.min_bytes,
            buckets.max_bytes,
            buckets.max_event,
            strict=True,
        )
        for i, row in enumerate(rows):
            held = [0 if column is None else column[i] for column in columns]
            rest = [series.rest[i]] if stacked else []
            writer.writerow([series.device, series.measure, *row, *held, *rest])
    return out.getvalue().rstrip("\n")


def _titles(series: Series) -> list[str]:
    """The labels of its layers, numbered where one is there again (two stacks of one place)."""
    found: list[str] = []
    times: dict[str, int] = {}
    for layer in series.layers:
        label = clean(layer.group.label)
        times[label] = times.get(label, 0) + 1
        found.append(f"{label} #{times[label]}" if times[label] > 1 else label)
    return found
