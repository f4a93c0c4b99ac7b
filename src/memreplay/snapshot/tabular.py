"""A table whose rows are created on access, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memreplay.snapshot.brief import MOST_ROWS, html_columns
from memreplay.snapshot.record import Tabular

if TYPE_CHECKING:
    import pyarrow as pa


class Batched(Tabular):
    """A table whose rows are created on access. A row is a dict."""

    # the batch that was used last, and the index of its first row
    _last: tuple[int, pa.RecordBatch] | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def _title(self) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from memreplay.snapshot.arrow_columns import row_of  # imported late, because it loads NumPy

        for batch in self._arrow_batches():
            for row in range(batch.num_rows):
                yield row_of(batch, row)

    def __getitem__(self, at: int | slice) -> Any:
        """Return a row as a dict, or a slice as a list of dicts.

        The row's batch is cached, so reading neighbouring rows is cheap.
        """
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
        """Show the first rows."""
        names = self.columns
        rows = [tuple(one.values()) for one in self[:MOST_ROWS]]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return html_columns(self._title(), names, columns, len(self))
