"""Functions that answer: their options also as keywords, their snapshot also as a path."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from memreplay.declared import Field, changed, declared
from memreplay.errors import UsageError


class Choosing(Struct, frozen=True):
    """The records that the keyword arguments of a function fill, by the names of its parameters:
    what stands for each where none is given."""

    records: dict[str, Struct]

    def read(self, function: str, given: dict[str, Any], choices: dict[str, Any]) -> dict[str, Any]:
        """The records: those that are given, with the choices in them. A text is parsed where its
        field's values are written as text. Raises TypeError for a choice that there is not,
        UsageError for one that is out of range."""
        left = dict(choices)
        found: dict[str, Any] = {}
        for name, record in self.records.items():
            base = given.get(name)
            found[name] = record if base is None else base
            if left:
                options = {field.name: field for field in declared(type(record))}
                names = (*options, *record.__struct_fields__)
                changes = {one: left.pop(one) for one in names if one in left}
                for one in options.keys() & changes.keys():
                    changes[one] = _checked(options[one], changes[one])
                found[name] = changed(found[name], changes)
        if left:
            raise TypeError(f"{function}() has no option {next(iter(left))!r}")
        return found


def _checked(field: Field, value: Any) -> Any:
    """The value of a choice, parsed and in range."""
    opt = field.opt
    if field.many and isinstance(value, (str, int)):
        value = (value,)
    if field.many and value is not None:
        found = [_one(field, one) for one in value]
        if opt.joined:
            found = [one for some in found for one in (some if isinstance(some, tuple) else [some])]
        return tuple(found)
    if value is None and field.optional:
        return None
    found = _one(field, value)
    if field.kind in (int, float) and isinstance(found, (int, float)):
        if opt.least is not None and not found >= opt.least:
            raise UsageError(f"{field.name} counts from {opt.least:g}; there is no {found}")
        if opt.most is not None and found > opt.most:
            raise UsageError(f"{field.name} goes up to {opt.most:,g}, and {found:,} was given")
    return found


def _one(field: Field, value: Any) -> Any:
    parse = field.opt.parse
    return parse(value) if parse and (field.opt.written or isinstance(value, str)) else value


O = TypeVar("O", bound=Struct)  # noqa: E741
R = TypeVar("R")


def takes(**records: type[Struct] | Struct) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorates a function of a snapshot and records: each field of the records is a keyword of it,
    too, and the snapshot may be a path or the bytes of a file. A record in place of its type has
    the defaults.

        @takes(selection=Selection, options=LeaksOptions)
        def leaks_report(snapshot, selection, options): ...

        leaks_report(snapshot, by="file", older_than=5)
    """
    return _taking(records, as_snapshot)


def takes_choices(
    **records: type[Struct] | Struct,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Does what `takes` does, for a function whose first parameter isn't a snapshot."""
    return _taking(records, lambda given: given)


def _taking(
    records: dict[str, type[Struct] | Struct], first: Callable[[Any], Any]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    defaults = {name: one() if isinstance(one, type) else one for name, one in records.items()}
    choosing = Choosing(defaults)

    def decorated(function: Callable[..., R]) -> Callable[..., R]:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @functools.wraps(function)
        def called(*args: Any, **choices: Any) -> R:
            given = dict(zip(names, args, strict=False))
            given |= {name: choices.pop(name) for name in names if name in choices}
            given |= choosing.read(function.__name__, given, choices)
            return function(**{**given, names[0]: first(given[names[0]])})

        called.__signature__ = Signature(function, defaults)  # type: ignore[attr-defined]
        return called

    return decorated


def as_snapshot(given: Any) -> Any:
    """The snapshot, opened where it is not one yet."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        return given
    from memreplay.snapshot.snapshot import open as open_snapshot  # late: it loads the native core

    return open_snapshot(given)


class Signature(inspect.Signature):
    """The signature of a function with each option as a keyword, made when somebody looks at it:
    the command line has no use for it, and it takes as long as a small report."""

    __slots__ = ("_function", "_made", "_records")

    def __init__(self, function: Callable[..., Any], records: dict[str, Struct]) -> None:
        super().__init__()
        self._function = function
        self._records = records
        self._made: Mapping[str, inspect.Parameter] | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """By their names, in their order."""
        if self._made is None:
            self._made = {one.name: one for one in self._parameters_of()}
        return self._made

    @property
    def return_annotation(self) -> Any:
        """That of the function."""
        return inspect.signature(self._function).return_annotation

    def _parameters_of(self) -> Iterator[inspect.Parameter]:
        for one in inspect.signature(self._function).parameters.values():
            record = self._records.get(one.name)
            if record is None:
                yield one
            else:
                yield one.replace(default=None, annotation=f"{type(record).__name__} | None")
        for record in self._records.values():
            for field in declared(type(record)):
                default = getattr(record, field.name, field.default)
                yield inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=() if field.many else default,
                    annotation=field.annotation,
                )
