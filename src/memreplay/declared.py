"""Declare options (flag, help, parser, possible values) as annotated fields of records.

    class LeaksOptions(Options, frozen=True):
        older_than: Annotated[
            int, Opt("Count allocations that outlive N steps as old.", "N", least=0)
        ] = 3

A record is declared next to the function that uses it. The command line
(commands/shared/declaring.py), Python signatures, MCP arguments and the reference are generated
from it. This module doesn't know any of them. It also lists the fields in a record's JSON.
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

from memreplay.errors import UsageError

S = TypeVar("S", bound=Struct)


class Shared(Struct, frozen=True):
    """An option that several fields share, each as one of its keys, as in `--only stream=7`."""

    flag: str
    help: str
    """The text before the list of keys."""


class Opt(Struct, frozen=True):
    """A field's option and its meaning."""

    help: str
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    """Parses text to a value if the field's type isn't enough. Raises UsageError."""
    among: Callable[[], tuple[str, ...]] = tuple
    """Values that shell completion offers; the option takes one or several of them."""
    joined: bool = False
    """Whether one argument has several values, so that `parse` returns a tuple."""
    least: float | None = None
    most: float | None = None
    flag: str = ""
    """The option's name; by default the field's: `older_than` is `--older-than`."""
    of: Shared | None = None
    """If the field is a key of a shared option, that option's name; `help` is then a few words
    without a full stop.
    """
    key: str = ""
    """The key's name; by default the field's, with dashes."""
    short: str = ""
    """A one-letter alias: `-n`."""
    brief: str = ""
    """A shorter text for the short help and for agents; by default the help text itself."""
    path: Literal["", "file", "folder"] = ""
    """What shell completion offers: files, or folders and files."""
    written: bool = False
    """Whether Python callers also pass text such as `2%`, because a number would be ambiguous."""
    rare: bool = False
    """Only listed by --help-all."""
    group: str = ""
    """The help section; by default the record's."""
    shown: str | None = None
    """The default shown in the help; by default the value, None for nothing."""
    needs: str = ""
    """The field of the same record without which this option has no effect."""


class Options(Struct, frozen=True, kw_only=True):
    """Base of option records."""


class Field(Struct, frozen=True):
    """An option declared by a record."""

    name: str
    kind: Any
    """The type, without Optional or tuple."""
    many: bool
    """Whether the option may be repeated; its value is then a tuple."""
    optional: bool
    """Whether the value may be None."""
    default: Any
    opt: Opt
    annotation: Any
    """The full type, for Python signatures."""

    @property
    def flag(self) -> str:
        """The option's name."""
        shared = self.opt.of
        return shared.flag if shared else self.opt.flag or f"--{self.name.replace('_', '-')}"

    @property
    def key(self) -> str:
        """The key, if the option is shared."""
        return self.opt.key or self.name.replace("_", "-")

    @property
    def spelled(self) -> str:
        """The option, including its key if it's shared."""
        return f"{self.flag} {self.key}" if self.opt.of else self.flag

    @property
    def values(self) -> tuple[Any, ...]:
        """The possible values; () if any value is allowed."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def bounds(self) -> str:
        """Return the allowed range in words, e.g. `from 1 to 9` or `of at least 1`; "" if any
        number is allowed.
        """
        least, most = self.opt.least, self.opt.most
        if least is None:
            return ""
        return f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"

    def in_range(self, value: Any) -> bool:
        """Return whether a number, or each of several, is between `least` and `most`."""
        if isinstance(value, tuple):
            return all(map(self.in_range, value))
        least, most = self.opt.least, self.opt.most
        # Written so that NaN is out of range, too.
        return (least is None or value >= least) and (most is None or value <= most)

    @property
    def argument(self) -> str:
        """The argument's name for agents: the option's name, followed by the key if the option is
        shared.
        """
        return self.spelled.removeprefix("--").replace("-", "_").replace(" ", "_")


@cache
def declared(record: type[Struct]) -> tuple[Field, ...]:
    """Return a record's options, in order, including nested records' options."""
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
    """Return each field's default, None for required ones."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    found: dict[str, Any] = dict.fromkeys(names)
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        found[name] = None if default is NODEFAULT else default
    return found


def is_record(kind: Any) -> bool:
    """Return whether a type is a record."""
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def hints_of(record: type[Struct]) -> dict[str, Any]:
    """Return the types of a record's fields, except for types imported only for type checking,
    which aren't options.
    """
    found = {}
    for one in reversed(record.__mro__):
        space = vars(sys.modules[one.__module__])
        for name, hint in inspect.get_annotations(one).items():
            found[name] = _evaluated(hint, space) if isinstance(hint, str) else hint
    return found


def _evaluated(hint: str, space: dict[str, Any]) -> Any:
    try:
        return eval(hint, space)  # evaluates only our own annotations
    except NameError:
        return None


def without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        left = [one for one in get_args(hint) if one is not type(None)]
        if len(left) < len(get_args(hint)):
            return (left[0] if len(left) == 1 else Union[tuple(left)]), True  # noqa: UP007
    return hint, False


def json_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields that are keys in a record's JSON."""
    hidden = text_only(kind)
    return tuple(name for name in kind.__struct_fields__ if name not in hidden)


def text_only(kind: type[Struct]) -> frozenset[str]:
    """Return the fields that are only used for text, including base classes' fields."""
    named = (name for one in kind.__mro__ for name in vars(one).get("text_only", ()))
    return frozenset(named)


def built(record: type[Struct], given: dict[str, Any]) -> Any:
    """Build a record from option values, removing them from `given`.

    Nested records are built, too; an optional one is None if none of its options are given.
    """
    options = {field.name for field in declared(record)}
    return _changed(
        record(), {name: given.pop(name) for name in options if name in given}, anew=True
    )


def changed(record: S, given: dict[str, Any]) -> S:
    """Return the record with some fields changed, including fields of nested records."""
    return _changed(record, given, anew=False)


def check_needs(record: Struct) -> None:
    """Raise UsageError for an option that has no effect without another one of its record."""
    for field in declared(type(record)):
        needed = field.opt.needs
        if not needed or not hasattr(record, field.name) or getattr(record, needed):
            continue
        if getattr(record, field.name) != field.default:
            other = next(one.spelled for one in declared(type(record)) if one.name == needed)
            raise UsageError(f"{field.spelled} only applies to {other}; add {other}")


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
