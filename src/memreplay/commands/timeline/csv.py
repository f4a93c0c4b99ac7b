"""Write measures over events as CSV: a header, then a row per bucket."""

from __future__ import annotations

from msgspec import UNSET

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
OUTSIDE = ("outside_bytes", "other_bytes")  # only if they were measured
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
    measured = any(series.outside_bytes is not UNSET for series in report.devices)
    more = [*(OUTSIDE if measured else ()), *titles, *([REST] if stacked else [])]
    writer.writerow([*COLUMNS, *more])
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
        outside = [getattr(series, name) or [None] * len(buckets) for name in OUTSIDE]
        for i, row in enumerate(rows):
            samples = [column[i] for column in outside] if measured else []
            held = [0 if column is None else column[i] for column in columns]
            rest = [series.rest[i]] if stacked else []
            writer.writerow([series.device, series.measure, *row, *samples, *held, *rest])
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
