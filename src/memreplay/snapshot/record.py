"""Base classes of all results.

A record is frozen, and its typed fields are its JSON keys. A table has rows, and can be converted
for pandas, polars, pyarrow and DuckDB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct, to_builtins

from memreplay.declared import json_fields
from memreplay.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class Record(Struct, frozen=True):
    """A result or part of one.

    Its fields are its JSON keys, in order, except for fields in `text_only`, which only text output
    needs. UNSET fields are left out of the JSON. The string below a field documents it;
    ci/schemas.py collects these into the JSON schemas and docs/reference/json.md.
    """

    text_only: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap fields that hold a tuple of records, so that reading one returns `Rows`, a table."""
        super().__init_subclass__(**options)
        for name, said in cls.__annotations__.items():
            # Leave out frames, because there are many and a table of frames isn't useful.
            if isinstance(said, str) and said[:6] == "tuple[":
                kind, many, _ = said[6:].partition(", ...]")
                member = vars(cls).get(name)
                if many and member and kind[:1].isupper() and kind != "Frame":
                    setattr(cls, name, _Field(member, cls.__module__, kind))

    def __repr__(self) -> str:
        from memreplay.snapshot.brief import line_of  # imported late: rarely needed

        return line_of(self)

    def _repr_html_(self) -> str:
        from memreplay.snapshot.brief import html_of  # imported late: only for notebooks

        return html_of(self)


class Tabular:
    """Base class of all tables.

    Libraries that support the Arrow PyCapsule interface (polars, DuckDB, pandas, pyarrow) accept a
    table directly. Times are `timestamp[us, UTC]`, null if unknown.
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(self._arrow_schema().names)

    def _arrow_schema(self) -> pa.Schema:
        raise NotImplementedError

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        raise NotImplementedError

    def _arrow_reader(self) -> pa.RecordBatchReader:
        from memreplay.snapshot.arrow_columns import arrow  # late import: loads NumPy

        return arrow().RecordBatchReader.from_batches(self._arrow_schema(), self._arrow_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of batches (Arrow PyCapsule interface)."""
        return self._arrow_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema (Arrow PyCapsule interface)."""
        return self._arrow_schema().__arrow_c_schema__()

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow.Table. Raises MissingExtraError without pyarrow."""
        return self._arrow_reader().read_all()

    def to_pandas(self) -> Any:
        """Convert to a pandas.DataFrame.

        Integer columns with nulls are `Int64`, not `float64`. Raises MissingExtraError without
        pandas or pyarrow.
        """
        from memreplay.snapshot.arrow_columns import pandas_frame

        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Convert to a polars.DataFrame. Raises MissingExtraError without polars or pyarrow."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("to_polars() needs polars: pip install polars") from None
        return polars.from_arrow(self.to_arrow())


class Arrays(Tabular):
    """A table made of existing NumPy columns. A row is a dict of numbers."""

    __slots__ = ()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names."""
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
        """Return a row as a dict, or a slice as a list of dicts."""
        arrays = self._arrays()
        if isinstance(at, slice):
            length = len(next(iter(arrays.values())))
            return [self[one] for one in range(*at.indices(length))]
        return {name: column[at].item() for name, column in arrays.items()}


R = TypeVar("R", bound=Record)
MOST_SHOWN = 3  # more rows are only counted in a repr


class Rows(Tabular, Generic[R]):
    """A result's records, which are also a table of their fields.

    The columns are the records' JSON keys. Times have a time type, and nested records are structs.
    Rows behave like a tuple and equal one, but aren't one: polars and pyarrow would read a tuple's
    items instead of the table.
    """

    __slots__ = ("_kind", "records")

    def __init__(self, records: tuple[R, ...], kind: type[Record] | None = None) -> None:
        self.records = records
        self._kind = kind  # the records' type, needed if there are no rows

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[R]:
        return iter(self.records)

    def __reversed__(self) -> Iterator[R]:
        return reversed(self.records)

    def __contains__(self, record: object) -> bool:
        return record in self.records

    def __getitem__(self, at: int | slice) -> Any:
        """Return a record, or for a slice, rows."""
        if isinstance(at, slice):
            return Rows(self.records[at], next(iter(self._kinds()), None))
        return self.records[at]

    def __add__(self, other: Iterable[Any]) -> tuple[Any, ...]:
        return (*self.records, *other)

    def __radd__(self, other: Iterable[Any]) -> tuple[Any, ...]:
        return (*other, *self.records)

    def __mul__(self, times: int) -> tuple[R, ...]:
        return self.records * times

    def __eq__(self, other: object) -> bool:
        return self.records == (other.records if isinstance(other, Rows) else other)

    def __hash__(self) -> int:
        return hash(self.records)

    def index(self, record: R) -> int:
        """Return the first row that equals a record. Raises ValueError if none does."""
        return self.records.index(record)

    def count(self, record: R) -> int:
        """Return how many rows equal a record."""
        return self.records.count(record)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(dict.fromkeys(name for kind in self._kinds() for name in json_fields(kind)))

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow.Table. Raises MissingExtraError without pyarrow."""
        from memreplay.snapshot.arrow_columns import table_of_records  # late import: loads NumPy

        rows = [to_builtins(one, enc_hook=bare) for one in self.records]
        return table_of_records(self.columns, rows, self._kinds())

    def _kinds(self) -> tuple[type[Record], ...]:
        """Return the types of the records, in the order in which they occur."""
        return tuple(dict.fromkeys(map(type, self))) or ((self._kind,) if self._kind else ())

    def _arrow_schema(self) -> pa.Schema:
        return self.to_arrow().schema

    def _arrow_reader(self) -> pa.RecordBatchReader:
        return self.to_arrow().to_reader()

    def __repr__(self) -> str:
        """Show a few rows; of more rows, their number and columns."""
        if len(self) <= MOST_SHOWN:
            return repr(self.records)
        names = " or ".join(kind.__name__ for kind in self._kinds())
        return f"<{len(self)} rows of {names}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """Show the first rows."""
        from memreplay.snapshot.brief import html_rows  # imported late: only for notebooks

        return html_rows(self.records)


class _Field:
    """A field that holds a tuple of records. Reading it returns `Rows`."""

    __slots__ = ("_kind", "_member", "_module")

    def __init__(self, member: Any, module: str, kind: str) -> None:
        self._member = member
        self._module = module
        self._kind = kind

    def __get__(self, record: Any, owner: type[Any]) -> Any:
        if record is None:
            return self
        found = self._member.__get__(record, owner)
        if type(found) is tuple:
            # without records, the type provides the columns
            kind = None if found else vars(sys.modules[self._module]).get(self._kind)
            return Rows(found, kind)
        return found

    def __set__(self, record: Any, value: Any) -> None:
        self._member.__set__(record, value)


def bare(value: Any) -> Any:
    """Return the tuple in `Rows`. For encoders, which only know tuples."""
    if isinstance(value, Rows):
        return value.records
    raise NotImplementedError(f"{type(value).__name__} isn't data")


def inlined(of: type[Record], *parts: Record) -> dict[str, Any]:
    """Return those fields of `parts` that records of type `of` also have, by name.

    Used to compose results: `DevicePeak(**inlined(DevicePeak, facts, held), …)`. Keys stay flat.
    """
    own = set(of.__struct_fields__)
    return {
        name: value.records if isinstance(value := getattr(part, name), Rows) else value
        for part in parts
        for name in part.__struct_fields__
        if name in own
    }
