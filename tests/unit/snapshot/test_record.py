"""record: the base class of all results, and their JSON."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal, cast

import msgspec
import polars
import pyarrow as pa
import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.at.find import at_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.steps.find import steps_report
from memreplay.commands.summary.find import summarize
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import Coded, Frame, Group, Moment, When
from memreplay.snapshot.record import Record, Rows
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples/transformer_step.pkl.gz"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Told(Coded, frozen=True):
    """A row with a stack."""

    text_only = ("width",)

    rows: int
    width: int = 3


class Whole(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.whole/1"):
    """A report."""

    text_only = ("top",)

    pool: tuple[int, int] | None = None
    parts: tuple[Told, ...]
    tree: int | UnsetType = UNSET
    names: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    top: int = 5


TOLD = Told(7, label="a\udc80", frames=(Frame("f", "é.py", 1),), user=(0,))
WHOLE = Whole(parts=(TOLD,), pool=(0, 1), names={"x": ("y",)})


def test_json_has_the_fields_in_order() -> None:
    text = render_json(WHOLE, indent=None)
    assert text == (
        '{"schema": "memreplay.whole/1", "pool": [0, 1], "parts": [{"rows": 7,'
        ' "label": "a\\udc80", "user": [0], "libraries": [],'
        ' "frames": [{"function": "f", "file": "\\u00e9.py", "line": 1}]}],'
        ' "names": {"x": ["y"]}}'
    )
    assert render_json(WHOLE) == json.dumps(json.loads(text), indent=2)


def test_optional_field_is_left_out_if_unset() -> None:
    assert json.loads(render_json(replace(WHOLE, tree=0)))["tree"] == 0
    assert "tree" not in json.loads(render_json(WHOLE))


def test_nan_in_a_record_is_refused() -> None:
    group = Group(bytes=1, count=1, share=float("nan"), label="x")
    with pytest.raises(ValueError, match="JSON"):
        render_json(group)


def test_records_are_immutable_values() -> None:
    with pytest.raises(AttributeError):
        WHOLE.top = 7  # type: ignore[misc]
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=12)))
    for one in (
        TOLD,
        summarize(snap),
        peak_report(snap, by="category,file", peaks=2),
        at_report(snap, [When("end")], list=True),
        steps_report(snap),
        leaks_report(snap),
    ):
        assert pickle.loads(pickle.dumps(one)) == one
        assert copy.copy(one) == copy.deepcopy(one) == one
    assert len({TOLD, replace(TOLD), replace(TOLD, rows=8)}) == 2
    assert len({Filters(), Filters(include=("a",))}) == 2


def test_columns_are_compared_by_identity() -> None:
    live = mr.open(leaky.snapshot_bytes(leaky.Options(steps=3))).replay().live_at(event=9)
    assert live == live
    assert live != replace(live)
    assert hash(live) != hash(replace(live))
    assert pickle.loads(pickle.dumps(live)).size.tolist() == live.size.tolist()


# ---- sequences of records


class Item(Record, frozen=True):
    name: str
    bytes: int
    time_us: int | None = None
    age_us: int = 0
    note: str = ""
    part: tuple[Moment, ...] = ()
    text_only = ("note",)


class Holding(Record, frozen=True):
    items: tuple[Item, ...]
    frames: tuple[Frame, ...] = ()
    moments: tuple[Moment, ...] | UnsetType = UNSET
    numbers: tuple[int, ...] = ()


HOLDING = Holding((Item("a", 2**53 + 1, 5, 7, "x", (Moment("event", 3),)), Item("b", 2)))


def test_sequence_of_records_is_a_table() -> None:
    items = cast("Rows[Item]", HOLDING.items)
    assert [one.name for one in items] == ["a", "b"]
    assert isinstance(items, Rows)
    assert HOLDING.items == items
    assert items.columns == ("name", "bytes", "time_us", "age_us", "part")
    found = items.to_arrow()
    found.validate(full=True)
    assert pa.RecordBatchReader.from_stream(items).read_all() == found
    assert pa.schema(items) == found.schema
    assert found.schema.field("time_us").type == pa.timestamp("us", "UTC")
    assert found.schema.field("age_us").type == pa.duration("us")
    assert found.to_pylist() == [
        {
            "name": "a",
            "bytes": 2**53 + 1,
            "time_us": EPOCH + timedelta(microseconds=5),
            "age_us": timedelta(microseconds=7),
            "part": [{"kind": "event", "value": 3}],
        },
        {"name": "b", "bytes": 2, "time_us": None, "age_us": timedelta(0), "part": []},
    ]
    assert items.to_polars().equals(polars.from_arrow(found))
    assert items.to_pandas()["bytes"].tolist() == [2**53 + 1, 2]
    assert repr(items) == repr(tuple(items))
    assert items._repr_html_().startswith("<table>")


def test_libraries_accept_rows_directly() -> None:
    items = cast("Rows[Item]", HOLDING.items)
    assert polars.DataFrame(items).equals(items.to_polars())
    assert pa.table(items) == items.to_arrow()
    groups = peak_report(mr.open(EXAMPLE), by="file").devices[0].groups
    assert polars.DataFrame(groups)["bytes"].sum() == sum(one.bytes for one in groups)


def test_rows_behave_like_a_tuple() -> None:
    items = cast("Rows[Item]", HOLDING.items)
    first, second = items
    assert items == (first, second) == tuple(items)
    assert (first, second) == items
    assert items != [first, second]
    assert hash(items) == hash((first, second))
    assert (items[0], items[-1], items[1:]) == (first, second, (second,))
    assert items[:0].columns == items[5:].columns == items.columns
    assert (items + (first,), (second,) + items) == (  # noqa: RUF005
        (first, second, first),
        (second, first, second),
    )
    assert items + items == items * 2 == (first, second, first, second)
    assert (list(reversed(items)), second in items, 3 in items) == ([second, first], True, False)
    assert (items.index(second), items.count(first), bool(items), bool(items[:0])) == (
        1,
        1,
        True,
        0,
    )
    assert msgspec.json.decode(msgspec.json.encode(HOLDING), type=Holding) == HOLDING
    moved = replace(HOLDING, items=items[1:])
    assert json.loads(render_json(moved))["items"][0]["name"] == "b"
    assert moved == Holding((second,))


def test_other_sequences_are_unchanged() -> None:
    assert type(HOLDING.numbers) is tuple
    assert type(HOLDING.frames) is tuple
    assert HOLDING.moments is UNSET


def test_empty_sequence_has_its_columns() -> None:
    none = cast("Rows[Item]", Holding(()).items)
    assert none.columns == ("name", "bytes", "time_us", "age_us", "part")
    assert none.to_pandas().shape == (0, 5)
    assert none._repr_html_() == "<table></table>"


def test_record_round_trips() -> None:
    """Records with equal values have the same hash and JSON; copies and pickles are equal."""
    one, two = (Holding((Item("a", 1),), (), (Moment("event", 3),)) for _ in range(2))
    assert one.items
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert render_json(one) == render_json(two)
    assert replace(one, frames=()) == one
    with pytest.raises(AttributeError):
        one.items = ()  # type: ignore[misc]


def test_mixed_values_are_json() -> None:
    class Mixed(Record, frozen=True):
        value: object

    found = Rows((Mixed(1), Mixed("a"), Mixed(None), Mixed({"b": 2})))
    assert found.to_arrow().to_pydict() == {"value": ["1", '"a"', None, '{"b": 2}']}


def test_repr_of_many_rows_is_one_short_line() -> None:
    few = cast("Rows[Item]", Holding((Item("a", 1),)).items)
    many = cast("Rows[Item]", Holding((Item("a", 1),) * 1000).items)
    assert repr(few) == "(Item(name='a', bytes=1),)"
    assert repr(many) == "<1000 rows of Item: name, bytes, time_us, age_us, part>"


class Typed(Record, frozen=True):
    items: tuple[Item, ...] = ()
    source: Literal["given", "file"] = "file"
    wide: int | UnsetType = UNSET
    pool: tuple[int, int] | None = None
    share: Annotated[float, "of the peak"] = 0.0
    any: int | str = 0


class Several(Record, frozen=True):
    rows: tuple[Typed, ...]


def test_schema_depends_on_the_fields_types_and_not_on_the_rows() -> None:
    rows = [Typed(HOLDING.items, pool=(0, 1), wide=7), Typed(share=0.5, source="given"), Typed()]
    schemas = [
        cast("Rows[Typed]", Several(tuple(some)).rows).to_arrow().schema
        for some in (rows, rows[1:], rows[2:], [])
    ]
    fields = [(one.name, str(one.type)) for one in schemas[0]]
    moment = "list<item: struct<kind: string, value: int64>>"
    times = "time_us: timestamp[us, tz=UTC], age_us: duration[us]"
    item = f"name: string, bytes: int64, {times}, part: {moment}"
    assert fields == [
        ("items", f"list<item: struct<{item}>>"),
        ("source", "string"),
        ("wide", "int64"),
        ("pool", "list<item: int64>"),
        ("share", "double"),
        ("any", "int64"),  # only the values can tell
    ]
    assert {tuple(one for one in schema if one.name != "any") for schema in schemas} == {
        tuple(one for one in schemas[0] if one.name != "any")
    }


def test_integers_beyond_64_bits_become_text() -> None:
    def kind(*values: int) -> str:
        rows = cast("Rows[Typed]", Several(tuple(Typed(wide=one) for one in values)).rows)
        return str(rows.to_arrow().schema.field("wide").type)

    assert (kind(2**63 - 1), kind(-1, 2**63)) == ("int64", "string")
