"""Tests of declared.py: a record's fields become options, and values become a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pytest

from memreplay.declared import Opt, Options, built, declared

if TYPE_CHECKING:
    from fractions import Fraction


class Inner(Options, frozen=True):
    """A nested record."""

    deep: Annotated[int, Opt("How deep.", least=0)] = 1


class Base(Options, frozen=True):
    """A base class of another record."""

    first: Annotated[str | None, Opt("The first.", flag="--one")] = None


class Beside(Options, frozen=True):
    """A field with the name of another record's option."""

    asked: bool = False
    own: Annotated[int, Opt("Its own.")] = 0


class Some(Base, frozen=True):
    """Options, and fields that aren't options."""

    many_of: Annotated[tuple[str, ...], Opt("Several.")] = ()
    pair: Annotated[tuple[int, int] | None, Opt("A pair.")] = None
    inner: Inner | None = None
    kind: Annotated[Literal["a", "b"], Opt("Which.")] = "a"
    plain: int = 7
    late: Fraction | None = None
    asked: Annotated[bool, Opt("Whether.")] = False


def test_fields_of_a_record_become_options() -> None:
    found = {one.name: one for one in declared(Some)}
    assert [*found] == ["first", "many_of", "pair", "deep", "kind", "asked"]
    assert [one.flag for one in found.values()] == [
        *("--one", "--many-of", "--pair", "--deep", "--kind", "--asked"),
    ]
    assert (found["many_of"].many, found["many_of"].kind) == (True, str)
    assert (found["pair"].many, found["pair"].optional) == (False, True)
    assert found["first"].kind is str
    assert (found["deep"].default, found["kind"].default, found["asked"].default) == (1, "a", False)


@pytest.mark.parametrize(
    "given, inner", [({"deep": 1}, None), ({"deep": 2}, Inner(deep=2)), ({}, None)]
)
def test_values_become_a_record(given: dict[str, int], inner: Inner | None) -> None:
    values = {"first": "x", "asked": True, "other": 5, **given}
    assert built(Some, values) == Some(first="x", inner=inner, asked=True)
    assert values == {"other": 5}  # options of other records remain


def test_undeclared_field_takes_no_option_from_another_record() -> None:
    values = {"asked": True, "own": 3}
    assert built(Beside, values) == Beside(own=3)
    assert built(Some, values) == Some(asked=True)
