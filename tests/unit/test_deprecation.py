"""Tests of deprecation.py: old names work, say the new one to who uses them, and go in time."""

from __future__ import annotations

import inspect
import re
import sys
import warnings

import pytest

import memreplay
from memreplay import deprecation
from memreplay.deprecation import Old, option_note, overdue, takes_old_names
from tests.conftest import ROOT


def line() -> int:
    """The number of the line that calls this."""
    return sys._getframe(1).f_lineno


def test_no_name_is_kept_for_longer_than_was_said() -> None:
    assert list(overdue(memreplay.__version__)) == []


def test_what_is_kept_for_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "OPTIONS", {"--old": Old("--new", "0.10.0")})
    monkeypatch.setattr(deprecation, "NAMES", {"peaks": Old("peak", "0.10.1")})
    monkeypatch.setattr(deprecation, "PARAMETERS", {"peak": {"n": Old("top", "1.0.0")}})
    assert list(overdue("0.9.9")) == []
    assert list(overdue("0.10.0")) == ["--old: memreplay 0.10.0 was to drop it"]
    assert len(list(overdue("0.10.1"))) == 2
    assert list(overdue("1.0.0"))[-1] == "n= of memreplay.peak: memreplay 1.0.0 was to drop it"


def test_versions_are_numbers_and_the_new_names_are_there() -> None:
    assert all(re.fullmatch(r"\d+\.\d+\.0", old.gone) for old in deprecation.OPTIONS.values())
    public = (ROOT / "ci" / "public.txt").read_text(encoding="utf-8")
    for name, old in deprecation.OPTIONS.items():
        if old.now.startswith("--"):
            assert re.search(rf"^option \S+ {old.now}\b", public, re.MULTILINE), name
    for name, old in deprecation.NAMES.items():
        assert name not in memreplay.__all__
        assert old.now in memreplay.__all__
    for function, renamed in deprecation.PARAMETERS.items():
        taken = inspect.signature(getattr(memreplay, function)).parameters
        assert all(old.now in taken for old in renamed.values())


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    for name, old in deprecation.OPTIONS.items():
        assert f"| `{name}` | `{old.now}` | {old.gone} |" in page


# ---- names of the package


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "NAMES", {"highest": Old("peak", "9.0.0")})


@pytest.mark.usefixtures("renamed")
def test_an_old_name_is_the_new_one_and_warns_its_user() -> None:
    with pytest.warns(DeprecationWarning, match="drops the old name") as caught:
        found, at = memreplay.highest, line()
    assert found is memreplay.peak
    (warning,) = caught
    words = "memreplay.highest is now memreplay.peak; memreplay 9.0.0 drops the old name"
    assert str(warning.message) == words
    assert (warning.filename, warning.lineno) == (__file__, at)


@pytest.mark.usefixtures("renamed")
def test_an_import_of_it_warns_likewise() -> None:
    with pytest.warns(DeprecationWarning, match=r"memreplay\.peak") as caught:
        exec(compile("\n\nfrom memreplay import highest", "theirs.py", "exec"), {})
    # Some versions of Python ask for the name twice.
    assert {(one.filename, one.lineno) for one in caught} == {("theirs.py", 3)}


@pytest.mark.usefixtures("renamed")
def test_a_line_is_warned_once() -> None:
    # As Python does by itself: once a line.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            _ = memreplay.highest
    assert len(caught) == 1


@pytest.mark.usefixtures("renamed")
def test_an_old_name_is_not_listed() -> None:
    assert "highest" not in dir(memreplay)
    with pytest.raises(AttributeError, match="no attribute 'higher'"):
        _ = memreplay.higher


# ---- parameters


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(deprecation, "PARAMETERS", {"peak": {"n": Old("top", "9.0.0")}})

    @takes_old_names("peak")
    def peak(snap: str, *, top: int = 20) -> tuple[str, int]:
        """How high."""
        return snap, top

    return peak


def test_an_old_parameter_is_the_new_one(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.warns(DeprecationWarning, match="drops the old name") as caught:
        found, at = function("a", n=5), line()
    assert found == ("a", 5)
    (warning,) = caught
    words = "n= of memreplay.peak is now top=; memreplay 9.0.0 drops the old name"
    assert str(warning.message) == words
    assert (warning.filename, warning.lineno) == (__file__, at)
    assert function("a", top=5) == ("a", 5)
    assert list(inspect.signature(function).parameters) == ["snap", "top"]


def test_both_are_an_error(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match=r"peak\(\) got top twice: n is an old name of it"):
        function("a", n=5, top=6)


def test_what_has_no_old_parameters_is_left_alone() -> None:
    def steps() -> None:
        """Nothing."""

    assert takes_old_names("steps")(steps) is steps


def test_words_of_options() -> None:
    assert "is now --only-carried-over; memreplay" in option_note("--only-baseline")
