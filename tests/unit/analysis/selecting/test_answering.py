"""Tests of analysis/selecting/answering.py: options as keywords, a snapshot as a path."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest

import memreplay as mr
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.selection import Filters, Measures, Selection
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from tests import build


class Given(Options, frozen=True):
    """Of this answer alone."""

    windows: Annotated[int | None, Opt("Windows.", least=5, most=9)] = None
    size: Annotated[int, Opt("A size.", parse=parse_size)] = 1


@takes(selection=Selection, options=Given)
def answer(snap: Any, selection: Selection, options: Given) -> tuple[Any, Selection, Given]:
    """What it was asked."""
    return snap, selection, options


def asked(*records: object, **choices: Any) -> tuple[Selection, Given]:
    return answer(None, *records, **choices)[1:]


def test_records_and_choices() -> None:
    assert asked() == (Selection(), Given())
    assert asked(Selection(top=3), windows=6) == (Selection(top=3), Given(windows=6))
    assert asked(Selection(top=3), Given(windows=6), top=4, size="1KiB") == (
        Selection(top=4),
        Given(windows=6, size=1024),
    )
    assert asked(options=Given(size=2), fold=True) == (Selection(fold=True), Given(size=2))


def test_filters_are_choices_too() -> None:
    assert asked(include="a")[0] == Selection(filters=Filters(include=("a",)))
    assert asked(filters=Filters(exclude=("b",)), include=("a",), min_bytes="1K")[0] == Selection(
        filters=Filters(include=("a",), exclude=("b",), min_bytes=1024)
    )


@pytest.mark.parametrize(
    "choices, error",
    [
        ({"windows": 4}, "windows counts from 5; there is no 4"),
        ({"windows": 10}, "windows goes up to 9, and 10 was given"),
        ({"top": -1}, "top counts from 0; there is no -1"),
        ({"size": "8"}, "no unit"),
        ({"by": "colour"}, "'colour' is not one of stack"),
        ({"include": "("}, "not a regular expression|unterminated|missing"),
    ],
)
def test_what_is_out_of_range(choices: dict[str, object], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        asked(**choices)


def test_what_is_no_option() -> None:
    with pytest.raises(TypeError, match=r"answer\(\) has no option 'window'"):
        asked(window=5)


def test_a_path_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(build.dump(build.SnapshotBuilder().alloc(512, 512).build()))
    for given in (path, str(path), path.read_bytes()):
        assert isinstance(answer(given)[0], mr.Snapshot)


def test_the_signature_has_each_option() -> None:
    names = [*inspect.signature(answer).parameters]
    assert names[:3] == ["snap", "selection", "options"]
    assert {"by", "top", "include", "windows", "size"} <= {*names}


class Measured(Options, frozen=True):
    measures: Measures = ()


@takes(options=Measured)
def measured(snap: object, options: Measured) -> tuple[str, ...]:
    return options.measures


@pytest.mark.parametrize("given", ["held,active", ["held", "active"], ("held,active",)])
def test_a_text_that_stands_for_several(given: object) -> None:
    assert measured(None, measures=given) == ("held", "active")
    with pytest.raises(UsageError, match="'most' is not one of"):
        measured(None, measures=("most",))
