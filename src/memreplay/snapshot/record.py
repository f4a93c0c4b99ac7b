"""The bases of all results: a record is frozen, its typed fields are the keys of its JSON; a table
has rows, and a form that pandas, polars, pyarrow and DuckDB take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from memreplay.errors import MissingExtraError
from memreplay.snapshot.brief import html_of, line_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class Record(Struct, frozen=True):
    """A result, or a part of one.

    Its fields are the keys of its JSON, in their order, but for those that `text_only` names: what
    text alone needs. A field that is UNSET is left out of the JSON. The string below a field says
    what it means; docs/schemas and the tables of docs/json.md are made of these (ci/schemas.py).
    """

    text_only: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        return line_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


class Tabular:
    """Base of everything that is a table.

    Libraries that know the Arrow PyCapsule interface (polars, DuckDB, pandas, pyarrow) take it as
    it is. Times are `timestamp[us, UTC]`, null where there is none.
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self._arrow_schema().names)

    def _arrow_schema(self) -> pa.Schema:
        raise NotImplementedError

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, some at a time."""
        raise NotImplementedError

    def _arrow_reader(self) -> pa.RecordBatchReader:
        from memreplay.snapshot.arrow_columns import arrow  # late, as everywhere: it loads NumPy

        return arrow().RecordBatchReader.from_batches(self._arrow_schema(), self._arrow_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: the rows as a stream of batches."""
        return self._arrow_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow PyCapsule interface: only the schema."""
        return self._arrow_schema().__arrow_c_schema__()

    def to_arrow(self) -> pa.Table:
        """All of it as a pyarrow.Table. Raises MissingExtraError without pyarrow."""
        return self._arrow_reader().read_all()

    def to_pandas(self) -> Any:
        """All of it as a pandas.DataFrame. Numbers stay whole where some are null: such a column
        is `Int64`, not `float64`. Raises MissingExtraError without pandas or pyarrow."""
        from memreplay.snapshot.arrow_columns import pandas_frame

        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """All of it as a polars.DataFrame. Raises MissingExtraError without polars or pyarrow."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("to_polars() needs polars: pip install polars") from None
        return polars.from_arrow(self.to_arrow())


class Arrays(Tabular):
    """A table of NumPy columns that are there. A row is a dict of numbers."""

    __slots__ = ()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self._arrays())

    def _arrow_schema(self) -> pa.Schema:
        return next(self._arrow_batches()).schema

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        from memreplay.snapshot.arrow_columns import batch_of

        yield batch_of(self._arrays())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        arrays = self._arrays()
        for row in zip(*arrays.values(), strict=True):
            yield dict(zip(arrays, (one.item() for one in row), strict=True))

    def __getitem__(self, at: int | slice) -> Any:
        """The row of this number as a dict; those of a slice as a list."""
        arrays = self._arrays()
        if isinstance(at, slice):
            length = len(next(iter(arrays.values())))
            return [self[one] for one in range(*at.indices(length))]
        return {name: column[at].item() for name, column in arrays.items()}
