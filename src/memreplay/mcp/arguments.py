"""The tools' arguments: options of their commands, with JSON Schemas generated from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, defstruct, json

from memreplay.analysis.leaks.judging import LeaksOptions
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.fragmentation.find import FragmentationOptions
from memreplay.commands.oom.find import OomOptions
from memreplay.commands.plan.find import PlanOptions
from memreplay.commands.report.find import ReportOptions
from memreplay.commands.shared.source import Reading
from memreplay.commands.simulate.find import SimulateOptions
from memreplay.declared import Field, built, declared
from memreplay.errors import UsageError

# Replaces the options' help texts. Models read all of this with every request, so texts are short,
# or empty if the name says enough.
WORDS = {
    "top": "rows; 0: all",
    "by": (
        "stack (default), function, file, module, category, phase, annotation, stream, pool, size;"
        " several: category,file"
    ),
    "at": "peak, peak:2, oom, end, step:3, 1200 (event), 1.5s, an annotation (NAME:peak)",
    "total_memory": "as 80GiB",
    "include": "regex on file:line or function",
    "exclude": "the same, to exclude",
    "measure": "",
    "device": "",
    "salvage": "",
    "step_windows": "equal parts in place of steps",
    "oom": "which failed request; 0: all",
    "set": "as PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True",
    "search": "find the best",
    "scale": "of the chosen allocations' sizes; 0: none",
    "only_category": "chosen: activations",
    "step_annotation": "the step annotation; default: detected",
    "step_period": "or the number of events",
}
_MOST = {int: 2**31 - 1}
# Options that are explained in another tool's description.
_SAID = {"by": "as in peak", "at": "as in at", "include": "as in peak"}


class Nothing(Struct, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class FilesArguments(Nothing, kw_only=True):
    """The arguments of `files`."""

    match: Annotated[str, Meta(description="part of the path, or *.json")] = ""
    check: Annotated[bool, Meta(description="also open each: peak, failed requests, leaks")] = False


class OfFile(Nothing, kw_only=True):
    """One snapshot."""

    file: str
    salvage: bool = False


class OfTwo(Nothing, kw_only=True):
    """Two snapshots."""

    base: str
    new: str
    salvage: bool = False


def made(
    base: type[Nothing],
    *parts: tuple[type[Struct], str],
    said: tuple[str, ...] = (),
    **defaults: Any,
) -> Any:
    """Build an argument record: `base`, plus fields of option records by name.

    `said`: fields that another tool describes.
    """
    fields: list[tuple[str, Any, Any]] = []
    options: dict[str, Field] = dict(getattr(base, "options", {}))
    for record, names in parts:
        found = {field.name: field for field in declared(record)}
        for name in names.split():
            field = found[name]
            argument = field.argument
            options[argument] = field
            words = _SAID[argument] if argument in said else WORDS.get(argument, field.opt.brief)
            default = defaults.get(name, field.default)
            fields.append((argument, *_typed(field, words, default)))
    return defstruct(
        "Arguments",
        fields,
        bases=(base,),
        namespace={"options": options},
        module=__name__,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _typed(field: Field, words: str, default: Any) -> tuple[Any, Any]:
    """Return an argument's type and default."""
    opt = field.opt
    kind: Any = str if opt.parse or (field.many and not field.values) else field.kind
    bounds: dict[str, Any] = {}
    if kind in (int, float):
        bounds = {"ge": opt.least, "le": _MOST.get(kind) if opt.most is None else opt.most}
    meta = Meta(description=words or None, **bounds)
    kind = Annotated[kind, meta] if words or bounds else kind
    if default in (None, (), ""):
        return kind | UnsetType, UNSET
    return kind, default


def given(arguments: Any, record: type[Struct]) -> Any:
    """Build the option record from the arguments. Raises UsageError if an argument is invalid."""
    names = {field.name for field in declared(record)}
    return built(
        record,
        {
            field.name: _value(name, field, value)
            for name, field in arguments.options.items()
            if field.name in names and (value := getattr(arguments, name)) is not UNSET
        },
    )


def _value(name: str, field: Field, value: Any) -> Any:
    try:
        found = field.opt.parse(value) if field.opt.parse else value
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    if not field.in_range(found):
        raise UsageError(f"{name}: {value!r} is out of range; give a value {field.bounds}")
    return found if not field.many or field.opt.joined else (found,)


DEVICE = (Reading, "device")
CHOSEN = (Selection, "by top measure include exclude")

ReportArguments = made(OfFile, DEVICE, (ReportOptions, "total_memory"))
Chosen = made(OfFile, DEVICE, CHOSEN, top=5)
DiffArguments = made(
    OfTwo, DEVICE, (DiffOptions, "at"), (Selection, "by top measure"), said=("by", "at"), top=8
)
LeaksArguments = made(
    OfFile,
    DEVICE,
    (LeaksOptions, "windows total_memory"),
    (Selection, "by top"),
    said=("by",),
    top=3,
)
OomArguments = made(
    OfFile, DEVICE, (OomOptions, "oom total_memory"), (Selection, "by top"), said=("by",), top=3
)
FragmentationArguments = made(
    OfFile, DEVICE, (FragmentationOptions, "at"), (Selection, "top"), said=("at",), top=5
)
SimulateArguments = made(
    OfFile,
    DEVICE,
    (SimulateOptions, "set total_memory search scale category"),
    (Selection, "include"),
    said=("include",),
)
PlanArguments = made(OfFile, DEVICE, (PlanOptions, "fit"))
StepsArguments = made(OfFile, DEVICE, (StepOptions, "annotation period"), (Selection, "top"), top=8)


class AtArguments(made(OfFile, DEVICE, CHOSEN, said=("by", "include"), top=5), kw_only=True):  # type: ignore[misc, call-arg]
    """The arguments of `at`."""

    when: Annotated[str, Meta(description=WORDS["at"])]


class SqlArguments(OfFile, kw_only=True):
    """The arguments of `sql`."""

    query: Annotated[str, Meta(description="none: lists tables and columns")] = ""


class MoreArguments(Nothing, kw_only=True):
    """The arguments of `more`."""

    cursor: str


T = TypeVar("T", bound=Nothing)
# Maps the library's terms to words that callers understand.
_WORDS = {
    "Object contains unknown field": "unknown argument:",
    "Object missing": "missing",
    "Expected": "expected",
    "`": "",
}
_PLACE = re.compile(r"^(.*?) - at `\$\.?(.*?)`$")


def read_arguments(record: type[T], given: Mapping[str, Any]) -> T:
    """Parse a tool's arguments. Numbers may be given as text. Raises UsageError, which names the
    invalid argument and the valid ones.
    """
    try:
        return convert(given, record, strict=False)
    except ValidationError as error:
        names = ", ".join(record.__struct_fields__)
        place = _PLACE.match(str(error))
        words = f"{place[2]}: {place[1]}" if place and place[2] else str(error)
        for theirs, ours in _WORDS.items():
            words = words.replace(theirs, ours)
        raise UsageError(f"{words}; known arguments: {names}") from None


def schema_of(record: type[Nothing]) -> dict[str, Any]:
    """Return the JSON Schema for a tool's arguments, without redundant entries."""
    schema = json.schema(record)
    inner = schema["$defs"][record.__name__]
    properties = {name: _short(one) for name, one in inner["properties"].items()}
    found = {"type": "object", "properties": properties}
    if inner.get("required"):
        found["required"] = inner["required"]
    return found


def _short(one: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in one.items()
        if not (key == "default" and value in (False, "")) and key not in ("minimum", "maximum")
    }
