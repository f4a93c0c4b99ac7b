"""A table whose rows are made when they are read, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memreplay.snapshot.brief import MOST_ROWS, html_columns
from memreplay.snapshot.record import Tabular

if TYPE_CHECKING:
    import pyarrow as pa


class Batched(Tabular):
    """A table whose rows are made when they are read. A row is a dict."""

    _last: tuple[int, pa.RecordBatch] | None = None  # the batch that was asked for, and its place

    def __len__(self) -> int:
        raise NotImplementedError

    def _title(self) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from memreplay.snapshot.arrow_columns import row_of  # late: it loads NumPy

        for batch in self._arrow_batches():
            for row in range(batch.num_rows):
                yield row_of(batch, row)

    def __getitem__(self, at: int | slice) -> Any:
        """The row of this number as a dict, counted from the end if it's negative; those of a slice
        as a list. The batch that has it is kept, so that the next one costs little."""
        from memreplay.snapshot.arrow_columns import row_of

        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        row = range(len(self))[at]  # raises IndexError
        last = self._last
        if last is None or not last[0] <= row < last[0] + last[1].num_rows:
            last = self._last = self._batch_with(row)
        return row_of(last[1], row - last[0])

    def _batch_with(self, row: int) -> tuple[int, pa.RecordBatch]:
        first = 0
        for batch in self._arrow_batches():
            if row < first + batch.num_rows:
                return first, batch
            first += batch.num_rows
        raise IndexError(f"no row {row}")

    def _repr_html_(self) -> str:
        """Its first rows."""
        names = self.columns
        rows = [tuple(one.values()) for one in self[:MOST_ROWS]]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return html_columns(self._title(), names, columns, len(self))
