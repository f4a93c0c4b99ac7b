"""Write memory by category over time in the formats of torch.profiler's export_memory_timeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.engine.query._vectors import vector
from memreplay.export.viewers import digits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.export.viewers.records import CategoryEvents

COLUMNS = 8
PREEXISTING, CREATE, DESTROY = 1, 2, 4  # torch.profiler's action numbers
_NO_TIME = -1  # time of carried-over blocks


def render_raw(report: CategoryEvents) -> Iterator[bytes]:
    """Write a list of rows: nanoseconds, action, bytes (negative for a free), category number."""
    import numpy as np

    yield b"["
    parts = (
        (
            np.full(len(report.carried_over_bytes), _NO_TIME, dtype=np.int64),
            np.full(len(report.carried_over_bytes), PREEXISTING),
            report.carried_over_bytes,
            report.carried_category,
        ),
        (
            report.at_ns,
            np.where(report.is_free, DESTROY, CREATE),
            report.bytes,
            report.category,
        ),
    )
    comma = b""
    for at, action, size, category in parts:
        for first in range(0, len(at), digits.ROWS):
            rows = slice(first, first + digits.ROWS)
            columns = [
                part
                for column in (at, action, size, category.astype(np.int64))
                for part in (digits.decimal(vector(column[rows].data)), b",")
            ]
            found = digits.lines(len(at[rows]), [b"[", *columns[:-1], b"],\n"])
            yield comma + found[:-2]
            comma = b",\n"
    yield b"]\n"


def render_coalesced(report: CategoryEvents) -> Iterator[bytes]:
    """Write two lists: times in microseconds, and one row per time. A row has a 0, then the bytes
    per category.
    """
    import numpy as np

    at_us = report.at_ns // 1000
    start = int(at_us.min()) if len(at_us) else _NO_TIME
    carried = np.zeros(COLUMNS, dtype=np.int64)
    np.add.at(carried, report.carried_category, report.carried_over_bytes)
    has_carried = len(report.carried_over_bytes) > 0
    # the last row in each run of equal times
    last = np.flatnonzero(np.append(at_us[1:] != at_us[:-1], True)) if len(at_us) else at_us
    yield b"[["
    if has_carried:
        yield b"%d%s" % (start, b",\n" if len(last) else b"")
    for first in range(0, len(last), digits.ROWS):
        times = at_us[last[first : first + digits.ROWS]]
        more = first + digits.ROWS < len(last)
        found = digits.lines(len(times), [digits.decimal(vector(times.data)), b",\n"])
        yield found if more else found[:-2]
    yield b"],\n["
    if has_carried:
        yield b"[0,%s]%s" % (
            b",".join(b"%d" % n for n in carried.tolist()),
            b",\n" if len(last) else b"",
        )
    for first in range(0, len(last), digits.ROWS):
        ends = last[first : first + digits.ROWS]
        begin = int(last[first - 1]) + 1 if first else 0
        sums = _sums(report, begin, ends, carried)
        carried = sums[-1]
        columns = [
            part for i in range(COLUMNS) for part in (b",", digits.decimal(vector(sums[:, i].data)))
        ]
        found = digits.lines(len(ends), [b"[0", *columns, b"],\n"])
        yield found if first + digits.ROWS < len(last) else found[:-2]
    yield b"]]\n"


def _sums(
    report: CategoryEvents, begin: int, ends: NDArray[np.intp], carried: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sum up the bytes per category at the rows `ends`, starting at row `begin`.

    Shape (ends, COLUMNS).
    """
    import numpy as np

    stop = int(ends[-1]) + 1
    slot = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=begin - 1))
    changes = np.zeros((len(ends), COLUMNS), dtype=np.int64)
    np.add.at(changes, (slot, report.category[begin:stop]), report.bytes[begin:stop])
    changes[0] += carried
    return np.cumsum(changes, axis=0)
