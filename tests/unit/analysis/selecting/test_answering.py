"""Tests of analysis/selecting/answering.py: accepting options as keywords, and a path instead of a
snapshot.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import memreplay as mr
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.selection import (
    OF_ALLOCATIONS,
    Cards,
    Filters,
    Measures,
    Selection,
    TotalMemory,
)
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from tests import build

SNAP = mr.open(build.dump(build.SnapshotBuilder().alloc(512, 1).finish_segments().build()))


class Given(Options, frozen=True):
    """The options that only this command has."""

    windows: Annotated[int | None, Opt("Windows.", least=5, most=9)] = None
    size: Annotated[int, Opt("A size.", parse=parse_size)] = 1
    scale: Annotated[float | None, Opt("A factor.", least=0, most=1000)] = None
    x: Annotated[Literal["event", "time"] | None, Opt("An axis.")] = None
    total_memory: TotalMemory = None
    cards: Cards = ()
    tree: Annotated[bool, Opt("A tree.")] = False
    depth: Annotated[int, Opt("Its depth.", needs="tree")] = 0


@takes(selection=Selection, options=Given)
def answer(snap: Any, selection: Selection, options: Given) -> tuple[Any, Selection, Given]:
    """Return the arguments."""
    return snap, selection, options


def asked(*records: object, **choices: Any) -> tuple[Selection, Given]:
    return answer(SNAP, *records, **choices)[1:]


def test_keywords_override_records() -> None:
    assert asked() == (Selection(), Given())
    assert asked(Selection(top=3), windows=6) == (Selection(top=3), Given(windows=6))
    assert asked(Selection(top=3), Given(windows=6), top=4, size="1KiB") == (
        Selection(top=4),
        Given(windows=6, size=1024),
    )
    assert asked(options=Given(size=2), fold=True) == (Selection(fold=True), Given(size=2))


def test_filters_are_options_too() -> None:
    assert asked(include="a")[0] == Selection(filters=Filters(include=("a",)))
    assert asked(filters=Filters(exclude=("b",)), include=("a",), min_bytes="1K")[0] == Selection(
        filters=Filters(include=("a",), exclude=("b",), min_bytes=1024)
    )


@pytest.mark.parametrize(
    "choices, error",
    [
        ({"windows": 4}, "windows must be a whole number from 5 to 9, not 4"),
        ({"windows": 10}, "windows must be a whole number from 5 to 9, not 10"),
        ({"windows": 8.0}, "windows must be a whole number from 5 to 9, not 8.0"),
        ({"windows": True}, "windows must be a whole number from 5 to 9, not True"),
        ({"top": -1}, "top must be a whole number of at least 0, not -1"),
        ({"top": "all"}, "top must be a whole number of at least 0, not 'all'"),
        ({"scale": "2"}, "scale must be a number from 0 to 1,000, not '2'"),
        ({"scale": float("nan")}, "scale must be a number from 0 to 1,000, not nan"),
        ({"min_bytes": -1}, r"min_bytes must be a whole number of at least 0 or text \(SIZE\)"),
        ({"total_memory": 0}, r"total_memory must be a whole number of at least 1 or text"),
        ({"total_memory": "0"}, r"total_memory must be .* at least 1 or text \(SIZE\), not '0'"),
        ({"pool": [0]}, r"pool must be 2 whole numbers or text \(ID\), not \[0\]"),
        ({"measure": "zz"}, "measure must be one of requested, held, .* reserved, not 'zz'"),
        ({"x": "zz"}, "x must be one of event, time, not 'zz'"),
        ({"strict": 1}, "strict must be True or False, not 1"),
        ({"stream": 1.5}, r"stream must be a whole number or text \(N\), not 1.5"),
        ({"include": 7}, "include must be text, or several, not 7"),
        ({"cards": 7.5}, r"cards must be a whole number of at least 1 or text .*, or several"),
        ({"rules": True}, "rules must be category rules"),
        ({"size": "8"}, "no unit"),
        ({"by": "colour"}, "'colour' is not one of stack"),
        ({"include": "("}, "not a regular expression|unterminated|missing"),
    ],
)
def test_values_out_of_range_are_rejected(choices: dict[str, object], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        asked(**choices)


def test_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"answer\(\) has no option 'window'"):
        asked(window=5)


def test_path_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(build.dump(build.SnapshotBuilder().alloc(512, 512).build()))
    for given in (path, str(path), path.read_bytes()):
        assert isinstance(answer(given)[0], mr.Snapshot)


@pytest.mark.parametrize("given", [5, None, ["snap.pkl"]])
def test_other_input_than_a_snapshot_is_a_type_error(given: Any) -> None:
    words = re.escape(f"expected a path, bytes or a Snapshot, not {given!r}")
    for function in (mr.peak, mr.oom, mr.view):
        with pytest.raises(TypeError, match=words):
            function(given)


def test_signature_has_every_option() -> None:
    names = [*inspect.signature(answer).parameters]
    assert names[:3] == ["snap", "selection", "options"]
    assert {"by", "top", "include", "windows", "size"} <= {*names}


class Measured(Options, frozen=True):
    measures: Measures = ()


@takes(options=Measured)
def measured(snap: object, options: Measured) -> tuple[str, ...]:
    return options.measures


@pytest.mark.parametrize("given", ["held,active", ["held", "active"], ("held,active",)])
def test_several_values_may_be_one_string(given: object) -> None:
    assert measured(SNAP, measures=given) == ("held", "active")
    with pytest.raises(UsageError, match="'most' is not one of"):
        measured(SNAP, measures=("most",))


def test_options_are_accepted_in_several_forms() -> None:
    selection, options = asked(pool=[0, 1], total_memory="1GiB", cards="1GiB,2GiB", scale=2)
    assert selection.pool == (0, 1)
    assert (options.total_memory, options.cards, options.scale) == (1 << 30, (1 << 30, 2 << 30), 2)
    assert asked(top=np.int64(3))[0].top == 3
    assert asked(cards=[1, "2KiB"])[1].cards == (1, 2048)
    assert asked(total_memory=None, pool=None)[1].total_memory is None


def test_option_that_needs_another_is_refused_without_it() -> None:
    assert asked(tree=True, depth=2)[1].depth == 2
    with pytest.raises(UsageError, match=r"^depth only applies to tree; add tree$"):
        asked(depth=2)
    with pytest.raises(UsageError, match=r"^--depth only applies to --tree; add --tree$"):
        asked(Selection(), Given(depth=2))


@takes(selection=Selection, options=Given, without=("fold", *OF_ALLOCATIONS))
def some_report(snap: object, selection: Selection, options: Given) -> None:
    """Fail with a message about options."""
    raise UsageError(
        "use --x event, --by or --only stream=N, see memreplay peak --by module; --salvage reads it"
    )


@pytest.mark.parametrize("name", ["fold", "measure", "filters", "include", "no_carried_over"])
def test_keyword_without_effect_is_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^some\(\) has no option '{name}'$"):
        some_report(SNAP, **{name: None})
    assert name not in inspect.signature(some_report).parameters


def test_positional_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"^some\(\) takes options as keywords, not 'file'$"):
        some_report(SNAP, "file")


def test_errors_name_keywords_unless_records_are_given() -> None:
    with pytest.raises(UsageError) as error:
        some_report(SNAP, by="file")
    assert str(error.value) == (
        "use x='event', by or --only stream=N, see memreplay peak --by module; --salvage reads it"
    )
    with pytest.raises(UsageError, match=r"^use --x event, --by or --only stream=N"):
        some_report(SNAP, Selection(), Given())
    with pytest.raises(UsageError) as error:
        one_report(SNAP)
    assert str(error.value) == "leave out stream=N or pool"


@takes(selection=Selection)
def one_report(snap: object, selection: Selection) -> None:
    """Fail with a message about keys of options."""
    raise UsageError("leave out --only stream=N or --only pool")
