"""What a field of a record says about the option it is: its flag, its words, how text becomes it.

    class LeaksOptions(Options, frozen=True):
        older_than: Annotated[
            int, Opt("Count allocations that outlive N steps as old.", "N", least=0)
        ] = 3

A record of options is declared next to the function that answers. The command line
(commands/shared/declaring.py), the Python signature, the arguments of MCP's tools and the reference
are made from it. This module knows none of them.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

S = TypeVar("S", bound=Struct)


class Opt(Struct, frozen=True):
    """How a field is asked for on the command line, and what it means."""

    help: str
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    """What makes a value of a text, where the field's type doesn't say it. Raises UsageError."""
    among: Callable[[], tuple[str, ...]] = tuple
    """What a shell completes, where `parse` takes one of these, or several joined by commas."""
    joined: bool = False
    """Whether one text has several values: `parse` gives a tuple."""
    least: float | None = None
    most: float | None = None
    flag: str = ""
    """The option's name; by default the field's: `older_than` is `--older-than`."""
    short: str = ""
    """A second name, of one letter: `-n`."""
    brief: str = ""
    """The help in a few words, for the short help and for agents; by default the help itself."""
    path: Literal["", "file", "folder"] = ""
    """Whether it names a file, or a folder or file, which a shell completes."""
    written: bool = False
    """Whether Python writes it as text, too, since a number doesn't say what it means: `2%`."""
    rare: bool = False
    """Whether only --help-all lists it."""
    group: str = ""
    """The heading it stands below in the help; by default its record's."""
    shown: str | None = None
    """What the help says the default is; by default the value itself, None to say nothing."""

    def flag_of(self, field: str) -> str:
        """The name of the option of this field."""
        return self.flag or f"--{field.replace('_', '-')}"


class Options(Struct, frozen=True, kw_only=True):
    """Base of the records of options."""


class Field(Struct, frozen=True):
    """An option as a record declares it."""

    name: str
    kind: Any
    """Its type, without what is optional or repeated."""
    many: bool
    """Whether it may be given several times; its value is a tuple."""
    optional: bool
    """Whether None stands for what is not asked for."""
    default: Any
    opt: Opt
    annotation: Any
    """Its whole type, as a Python signature shows it."""

    @property
    def flag(self) -> str:
        """The option's name."""
        return self.opt.flag_of(self.name)


@cache
def declared(record: type[Struct]) -> tuple[Field, ...]:
    """The options that a record declares, in their order; those of records within it at their
    place."""
    return tuple(_declared(record))


def _declared(record: type[Struct]) -> Iterator[Field]:
    hints = hints_of(record)
    for name, default in _defaults(record).items():
        hint = hints.get(name)
        opt = None
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            opt = next((one for one in notes if isinstance(one, Opt)), None)
        bare, optional = without_none(hint)
        if opt is not None:
            many = get_origin(bare) is tuple and get_args(bare)[1:] == (...,)
            kind = get_args(bare)[0] if many else bare
            yield Field(name, kind, many, optional, default, opt, hint)
        elif is_record(bare):
            yield from declared(bare)


def _defaults(record: type[Struct]) -> dict[str, Any]:
    """The default of each field, None where it has to be given."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    found: dict[str, Any] = dict.fromkeys(names)
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        found[name] = None if default is NODEFAULT else default
    return found


def is_record(kind: Any) -> bool:
    """Whether a type is a record."""
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def hints_of(record: type[Struct]) -> dict[str, Any]:
    """The types of a record's fields, but for those whose names are imported for type checkers
    alone: no option is of such a type."""
    found = {}
    for one in reversed(record.__mro__):
        space = vars(sys.modules[one.__module__])
        for name, hint in inspect.get_annotations(one).items():
            found[name] = _evaluated(hint, space) if isinstance(hint, str) else hint
    return found


def _evaluated(hint: str, space: dict[str, Any]) -> Any:
    try:
        return eval(hint, space)  # an annotation of our own
    except NameError:
        return None


def without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        left = [one for one in get_args(hint) if one is not type(None)]
        if len(left) < len(get_args(hint)):
            return (left[0] if len(left) == 1 else Union[tuple(left)]), True  # noqa: UP007
    return hint, False


def built(record: type[Struct], given: dict[str, Any]) -> Any:
    """The record with these values of its options, taken out of `given`, and those of records
    within it; an optional record within it is None where nothing of it was asked for."""
    options = {field.name for field in declared(record)}
    return _changed(
        record(), {name: given.pop(name) for name in options if name in given}, anew=True
    )


def changed(record: S, given: dict[str, Any]) -> S:
    """The record with other values of its fields, and of the options of records within it."""
    return _changed(record, given, anew=False)


def _changed(record: S, given: dict[str, Any], *, anew: bool) -> S:
    hints = hints_of(type(record))
    own = {name: given[name] for name in record.__struct_fields__ if name in given}
    for name in record.__struct_fields__ if len(own) < len(given) else ():
        bare, optional = without_none(hints.get(name))
        inner = {one.name: given[one.name] for one in _within(bare) if one.name in given}
        if inner:
            base = None if anew else own.get(name) or getattr(record, name)
            made = _changed(base or bare(), inner, anew=anew)
            own[name] = None if optional and made == bare() else made
    return replace(record, **own) if own else record


def _within(kind: Any) -> tuple[Field, ...]:
    return declared(kind) if is_record(kind) else ()
