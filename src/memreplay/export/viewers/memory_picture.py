"""Write a page with a plot of memory by category over time.

Matches the .html output of torch.profiler's export_memory_timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memreplay.export.viewers.torch_categories import COLUMNS
from memreplay.render.units import size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.export.viewers.records import CategoryEvents

# torch.profiler's colours, which its users already know.
COLOURS = (
    "darkgreen",
    "goldenrod",
    "black",
    "mediumpurple",
    "red",
    "mediumblue",
    "royalblue",
    "grey",
)
PARTS = 1_500  # about the width of the plot in pixels
GIB = 1 << 30
_STYLE: Any = {"font.family": "DejaVu Sans", "text.usetex": False, "text.parse_math": False}


def render_page(report: CategoryEvents) -> Iterator[bytes]:
    """Return the HTML page. Raises MissingExtraError without matplotlib."""
    from base64 import b64encode

    picture = b64encode(_picture(report)).decode()
    yield (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>Memory by category, device {report.device}</title></head>\n"
        f'<body><img alt="Memory by category over time" src="data:image/png;base64,{picture}">'
        "</body>\n</html>\n"
    ).encode()


def highest(report: CategoryEvents, parts: int = PARTS) -> tuple[list[int], NDArray[np.int64]]:
    """Return (when, bytes by category). `when` is in nanoseconds since the first change.

    Time is cut into equal `parts`. Each part with changes results in two rows: the part's maximum,
    placed at the part's beginning, and the state at its end.
    """
    import numpy as np

    before = np.zeros(len(COLUMNS), dtype=np.int64)
    np.add.at(before, report.carried_category, report.carried_over_bytes)
    if not len(report.at_ns):
        return [0], before[None]
    # Has one entry more than there are changes.
    total = np.cumsum(np.append(before.sum(), report.bytes))
    since = report.at_ns - report.at_ns[0]
    width = int(since[-1]) // parts + 1
    part = since // width
    bounds = [*np.flatnonzero(np.diff(part, prepend=-1)).tolist(), len(since)]
    when: list[int] = []
    changes: list[int] = []
    for first, end in pairwise(bounds):
        begin = int(part[first]) * width
        when += [begin, begin + width]
        changes += [first + int(total[first : end + 1].argmax()), end]
    found = np.empty((len(when), len(COLUMNS)), dtype=np.int64)
    for column in range(len(COLUMNS)):
        mine = np.where(report.category == column, report.bytes, 0)
        found[:, column] = np.cumsum(np.append(before[column], mine))[changes]
    return when, found


def _picture(report: CategoryEvents) -> bytes:
    """Return a deterministic PNG."""
    from io import BytesIO

    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    when, held = highest(report)
    # Without times, each event counts as a microsecond.
    x = np.append(when, when[-1] + 1) / (1e6 if report.timed else 1e3)
    stacked = np.cumsum(held, axis=1) / GIB
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(20, 12), dpi=80, layout="constrained")
        axes = figure.subplots()
        below = np.zeros(len(stacked))
        for number, (name, colour) in enumerate(zip(COLUMNS, COLOURS, strict=True)):
            above = stacked[:, number]
            axes.fill_between(
                x,
                np.append(below, below[-1]),
                np.append(above, above[-1]),
                step="post",
                color=colour,
                linewidth=0,
                alpha=0.7,
                label=name.capitalize(),
            )
            below = above
        axes.set_xlabel("Time (ms)" if report.timed else "Event")
        axes.set_ylabel("Memory (GiB)")
        axes.set_xlim(0, float(x[-1]))
        axes.set_ylim(0, max(float(below.max()) * 1.05, 1 / GIB))
        axes.set_title(_title(report, int(held.sum(axis=1).max())))
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
        out = BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _title(report: CategoryEvents, most: int) -> str:
    exactness = "" if report.exactness == "exact" else " (estimated)"
    known = "as recorded" if report.recorded else "guessed from stacks"
    return (
        f"device {report.device}: {report.measure}, peak {size(most)}{exactness};"
        f" categories {known}"
    )
