"""Write measures over events as CSV: a header, then a row per bucket."""

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
    """Return the lines, without a final newline. With layers, there's a column per group name, even
    if several devices or measures have a group with that name.
    """
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
    """Return the layers' labels. Equal labels, such as those of two stacks at one location, are
    numbered.
    """
    found: list[str] = []
    times: dict[str, int] = {}
    for layer in series.layers:
        label = clean(layer.group.label)
        times[label] = times.get(label, 0) + 1
        found.append(f"{label} #{times[label]}" if times[label] > 1 else label)
    return found
