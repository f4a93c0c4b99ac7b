"""The bases of all results: a record is frozen, its typed fields are the keys of its JSON; a table
has rows, and a form that pandas, polars, pyarrow and DuckDB take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec import Struct

from memreplay.errors import MissingExtraError
from memreplay.snapshot.brief import html_of, html_rows, line_of

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

    def __init_subclass__(cls, **options: Any) -> None:
        """A field that has records in a row is a table, `Rows`, to whoever reads it."""
        super().__init_subclass__(**options)
        for name, said in cls.__annotations__.items():
            # Of frames there are many, and nobody wants a table of them.
            if isinstance(said, str) and said[:6] == "tuple[":
                kind, many, _ = said[6:].partition(", ...]")
                member = vars(cls).get(name)
                if many and member and kind[:1].isupper() and kind != "Frame":
                    setattr(cls, name, _Field(member, cls.__module__, kind))

    def __repr__(self) -> str:
        return line_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


class Tabular:
    """Base of everything that is a table.

    Libraries that know the Arrow PyCapsule interface (polars, DuckDB, pandas, pyarrow) take it as
    it is. Times are `timestamp[us, UTC]`, null if unknown.
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
    """A table of existing NumPy columns. A row is a dict of numbers."""

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


R = TypeVar("R", bound=Record)


class Rows(tuple[R, ...], Tabular):
    """Records in a row, as a field of a result: a tuple, and a table of their fields. The columns
    are the keys of their JSON; times are times, records in records are structs."""

    _kind: type[Record] | None = None  # the type of records, for an empty row

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        kinds = dict.fromkeys(map(type, self)) or dict.fromkeys([self._kind] if self._kind else [])
        return tuple(dict.fromkeys(name for kind in kinds for name in json_fields(kind)))

    def to_arrow(self) -> pa.Table:
        """All of it as a pyarrow.Table. Raises MissingExtraError without pyarrow."""
        from memreplay.snapshot.arrow_columns import table_of_records  # late: it loads NumPy

        return table_of_records(self.columns, self)

    def _arrow_schema(self) -> pa.Schema:
        return self.to_arrow().schema

    def _arrow_reader(self) -> pa.RecordBatchReader:
        return self.to_arrow().to_reader()

    def _repr_html_(self) -> str:
        """Its first rows."""
        return html_rows(self)


class _Field:
    """A field of a record that has records in a row: whoever reads it gets `Rows`."""

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
            found = Rows(found)
            if not found:  # no record tells what its columns would be
                found._kind = vars(sys.modules[self._module]).get(self._kind)
            self._member.__set__(record, found)
        return found

    def __set__(self, record: Any, value: Any) -> None:
        self._member.__set__(record, value)


def json_fields(kind: type[Record]) -> tuple[str, ...]:
    """The fields that are keys of its JSON."""
    hidden = text_only(kind)
    return tuple(name for name in kind.__struct_fields__ if name not in hidden)


def text_only(kind: type[Record]) -> frozenset[str]:
    """The fields only for text: the class's own, and those of its bases."""
    named = (name for one in kind.__mro__ for name in vars(one).get("text_only", ()))
    return frozenset(named)


def inlined(of: type[Record], *parts: Record) -> dict[str, Any]:
    """Return the fields of `parts` that records of the type `of` have, by name.

    Results are composed: `DevicePeak(**inlined(DevicePeak, facts, held), …)`. Their keys stay flat.
    """
    own = set(of.__struct_fields__)
    return {
        name: getattr(part, name)
        for part in parts
        for name in part.__struct_fields__
        if name in own
    }
