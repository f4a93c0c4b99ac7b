"""Decorators that let functions accept options as keywords and snapshots as paths."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

from msgspec import Struct

from memreplay.analysis.selecting.selection import Selection
from memreplay.declared import Field, changed, check_needs, declared
from memreplay.errors import UsageError


class Choosing(Struct, frozen=True):
    """The records that keyword arguments fill, by parameter name, with their default values."""

    records: dict[str, Struct]
    without: frozenset[str]
    """Fields of the selection that the function doesn't use."""

    def read(self, function: str, given: dict[str, Any], choices: dict[str, Any]) -> dict[str, Any]:
        """Build the records from given records and from single options, which take precedence.

        Text is parsed if the field can be parsed from text. Raises TypeError for an unknown option,
        UsageError for an invalid value or one that has no effect.
        """
        left = dict(choices)
        found: dict[str, Any] = {}
        for name, record in self.records.items():
            base = given.get(name)
            if base is not None and not isinstance(base, type(record)):
                raise TypeError(f"{function}() takes options as keywords, not {base!r}")
            found[name] = record if base is None else base
            if left:
                options = {field.name: field for field in declared(type(record))}
                names = {*options, *record.__struct_fields__} - self._unused(record)
                changes = {one: left.pop(one) for one in tuple(left) if one in names}
                for one in options.keys() & changes.keys():
                    changes[one] = _checked(options[one], changes[one])
                found[name] = changed(found[name], changes)
            check_needs(found[name])
        if left:
            raise TypeError(f"{function}() has no option {next(iter(left))!r}")
        return found

    def fields(self) -> Iterator[tuple[Struct, Field]]:
        """Yield the options that the function uses, with their records."""
        for record in self.records.values():
            for field in declared(type(record)):
                if field.name not in self._unused(record):
                    yield record, field

    def names(self) -> list[str]:
        """Return the names of all fields, including those that aren't options."""
        return [name for one in self.records.values() for name in one.__struct_fields__]

    def _unused(self, record: Struct) -> frozenset[str]:
        return self.without if isinstance(record, Selection) else frozenset()


def without_flags(words: str, options: Mapping[str, Field], others: Iterable[str] = ()) -> str:
    """Replace the command-line options in a message with the names that a caller uses.

    `options`: those names, and the options. `others`: names of further parameters.
    """
    flags: dict[str, list[tuple[str, Field]]] = {}
    for name, field in options.items():
        flags.setdefault(field.flag, []).append((name, field))
    plain = {f"--{name}" for name in others}

    def named(match: re.Match[str]) -> str:
        flag = match["flag"] or ""
        fields = flags.get(flag, [])
        if not fields and flag in plain:  # in a command, another record has --device
            return flag.removeprefix("--") + match["rest"]
        for name, field in fields:
            if not field.opt.of:
                value = match["value"] or ""
                given = f"={value!r}" if value in field.values else match["rest"]
                return name + given
            if field.key == match["value"]:
                return name
        return match[0]

    # An option and the word after it. Options in a command to run (`memreplay peak --by module`)
    # don't count.
    option = r"memreplay \w+ --[\w-]+|(?P<flag>--[a-z][\w-]*)(?P<rest>(?: (?P<value>[\w-]+))?)"
    return re.sub(option, named, words)


def _checked(field: Field, value: Any) -> Any:
    """Parse and check an option's value."""
    if value is None and field.optional:
        return None
    if not field.many:
        return _one(field, value)
    if isinstance(value, (str, int)):
        value = (value,)
    if not isinstance(value, Iterable):
        raise _wrong(field, value)
    found = [_one(field, one) for one in value]
    if field.opt.joined:  # each text contains several values
        found = [one for some in found for one in (some if isinstance(some, tuple) else (some,))]
    return tuple(found)


def _one(field: Field, value: Any) -> Any:
    opt, kind = field.opt, field.kind
    found = value
    if kind is str and isinstance(value, (list, tuple)):
        found = ",".join(map(str, value))  # by=["category", "file"]
    if opt.parse and (opt.written or isinstance(found, str)):
        found = opt.parse(found)
    if field.many and opt.joined and isinstance(found, tuple):
        fits = True  # parsed
    else:
        found, fits = _typed(field, found)
    if not fits or not field.in_range(found):
        raise _wrong(field, value)
    return found


def _typed(field: Field, value: Any) -> tuple[Any, bool]:
    """Convert the value to the field's type. Also return whether the result is valid."""
    kind = field.kind
    if field.values:
        return value, value in field.values
    if get_origin(kind) is tuple:  # a pool
        of = get_args(kind)
        found = tuple(value) if isinstance(value, (list, tuple)) else ()
        return found, len(found) == len(of) and all(map(isinstance, found, of))
    if kind is int and hasattr(value, "__index__"):
        return operator.index(value), not isinstance(value, bool)
    if kind is float:
        return value, hasattr(value, "__float__") and not isinstance(value, bool)
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value), bool(field.opt.path)
    return value, not isinstance(kind, type) or isinstance(value, kind)


def _wrong(field: Field, value: Any) -> UsageError:
    return UsageError(f"{field.name} must be {_accepted(field)}, not {value!r}")


_KINDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}


def _accepted(field: Field) -> str:
    """Describe the values that a field accepts, e.g. `a whole number from 1 to 9`."""
    opt = field.opt
    words = _KINDS.get(field.kind, "")
    if field.values:
        words = f"one of {', '.join(field.values)}"
    elif get_origin(field.kind) is tuple:
        words = f"{len(get_args(field.kind))} whole numbers"
    words = f"{words} {field.bounds}".rstrip()
    if opt.parse and field.kind is not str:
        words += f"{' or ' if words else ''}text ({opt.metavar})"
    return f"{words}, or several" if field.many else words


O = TypeVar("O", bound=Struct)  # noqa: E741
R = TypeVar("R")


def takes(
    *, without: Iterable[str] = (), **records: type[Struct] | Struct
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function that takes a snapshot and records. Every field of a record becomes a
    keyword, and the snapshot can also be a path or bytes.

    An instance instead of a type sets the defaults. `without`: fields of the
    selection that the function doesn't use, so they're neither keywords nor options of its command.

        @takes(selection=Selection, options=LeaksOptions, without=("fold",))
        def leaks_report(snapshot, selection, options): ...

        leaks_report(snapshot, by="file", older_than=5)
    """
    return _taking(records, as_snapshot, without)


def takes_choices(
    *, without: Iterable[str] = (), **records: type[Struct] | Struct
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Like `takes`, for functions whose first parameter isn't a snapshot."""
    return _taking(records, lambda given: given, without)


def without_of(function: Callable[..., Any] | None) -> frozenset[str]:
    """Return the fields of the selection that a decorated function doesn't use."""
    found: frozenset[str] = getattr(function, "without", frozenset())
    return found


def _taking(
    records: dict[str, type[Struct] | Struct], first: Callable[[Any], Any], without: Iterable[str]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    defaults = {name: one() if isinstance(one, type) else one for name, one in records.items()}
    choosing = Choosing(defaults, frozenset(without))

    def decorated(function: Callable[..., R]) -> Callable[..., R]:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        public = function.__name__.removesuffix("_report")

        @functools.wraps(function)
        def called(*args: Any, **choices: Any) -> R:
            given = dict(zip(names, args, strict=False))
            # Commands pass whole records, and error messages for commands name command-line
            # options.
            ours = given.keys() >= defaults.keys()
            given |= {name: choices.pop(name) for name in names if name in choices}
            ours = ours and not choices
            try:
                given |= choosing.read(public, given, choices)
                return function(**{**given, names[0]: first(given[names[0]])})
            except UsageError as error:
                if not ours:
                    options = {field.name: field for _, field in choosing.fields()}
                    error.args = (without_flags(str(error), options, choosing.names()),)
                raise

        called.__signature__ = Signature(function, choosing)  # type: ignore[attr-defined]
        called.without = choosing.without  # type: ignore[attr-defined]
        return called

    return decorated


def as_snapshot(given: Any) -> Any:
    """Return the snapshot, opening it if it's a path or bytes.

    Raises TypeError for anything else.
    """
    if isinstance(given, (str, bytes, os.PathLike)):
        # Imported late: loads the native core
        from memreplay.snapshot.snapshot import open as open_snapshot

        return open_snapshot(given)
    if not hasattr(given, "devices"):  # a side of a diff may be a baseline instead
        raise TypeError(f"expected a path, bytes or a Snapshot, not {given!r}")
    return given


class Signature(inspect.Signature):
    """A signature with options as keywords. Computed on demand, because the command line doesn't
    need it, and computing it takes as long as a small report.
    """

    __slots__ = ("_choosing", "_function", "_made")

    def __init__(self, function: Callable[..., Any], choosing: Choosing) -> None:
        super().__init__()
        self._function = function
        self._choosing = choosing
        self._made: Mapping[str, inspect.Parameter] | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The parameters by name, in order."""
        if self._made is None:
            self._made = {one.name: one for one in self._parameters_of()}
        return self._made

    @property
    def return_annotation(self) -> Any:
        """The function's return annotation."""
        return inspect.signature(self._function).return_annotation

    def _parameters_of(self) -> Iterator[inspect.Parameter]:
        for one in inspect.signature(self._function).parameters.values():
            record = self._choosing.records.get(one.name)
            if record is None:
                yield one
            else:
                yield one.replace(default=None, annotation=f"{type(record).__name__} | None")
        for record, field in self._choosing.fields():
            default = getattr(record, field.name, field.default)
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=() if field.many else default,
                annotation=field.annotation,
            )
