"""What each tool is asked: the options of the command of its name, of which the JSON Schemas are
made, and by which arguments are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, defstruct, json

from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.fragmentation.find import FragmentationOptions
from memreplay.commands.leaks.find import LeaksOptions
from memreplay.commands.oom.find import OomOptions
from memreplay.commands.report.find import ReportOptions
from memreplay.commands.shared.source import Reading
from memreplay.commands.simulate.changing import Changing
from memreplay.commands.simulate.find import SimulateOptions
from memreplay.declared import Field, built, declared
from memreplay.errors import UsageError
from memreplay.mcp.patterns import checked_pattern

# In place of an option's own words: all of them are read with every request, so they are few, and
# none where the name says it.
WORDS = {
    "top": "rows; 0: all",
    "by": (
        "stack (default), function, file, module, category, phase, annotation, stream, pool, size;"
        " several: category,file"
    ),
    "at": "peak, peak:2, oom, end, step:3, 1200 (event), 1.5s, an annotation (NAME:peak)",
    "total_memory": "as 80GiB",
    "include": "regex on file:line or function",
    "exclude": "likewise, left out",
    "measure": "",
    "device": "",
    "salvage": "",
    "windows": "equal parts in place of steps",
    "oom": "which failed request; 0: all",
    "set": "as PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True",
    "search": "try some 30 settings",
    "scale": "of the chosen allocations' sizes; 0: none",
    "category": "chosen: activations",
    "step_annotation": "what a step is, else found",
    "period": "or so many events",
}
_PATTERNS = ("include", "exclude")
_MOST = {int: 2**31 - 1}
# Where another tool says it.
_SAID = {"by": "as in peak", "at": "as in at", "include": "as in peak"}


class Nothing(Struct, kw_only=True, forbid_unknown_fields=True):
    """No argument."""


class FilesArguments(Nothing, kw_only=True):
    """`files`."""

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
    """A record of arguments: more options than `base` has, each of a record that declares it, by
    the names of their fields. `said` are those whose words another tool has."""
    fields: list[tuple[str, Any, Any]] = []
    options: dict[str, Field] = dict(getattr(base, "options", {}))
    for record, names in parts:
        found = {field.name: field for field in declared(record)}
        for name in names.split():
            field = found[name]
            argument = field.flag.removeprefix("--").replace("-", "_")
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
    """The type of an argument, and its default."""
    opt = field.opt
    kind: Any = str if opt.parse or field.many else field.kind
    bounds: dict[str, Any] = {}
    if kind in (int, float):
        bounds = {"ge": opt.least, "le": _MOST.get(kind) if opt.most is None else opt.most}
    meta = Meta(description=words or None, **bounds)
    kind = Annotated[kind, meta] if words or bounds else kind
    if default in (None, (), ""):
        return kind | UnsetType, UNSET
    return kind, default


def given(arguments: Any, record: type[Struct]) -> Any:
    """The record of options that the arguments fill. Raises UsageError that names an argument whose
    text is wrong."""
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
    if name in _PATTERNS:
        value = checked_pattern(name, value)
    try:
        found = field.opt.parse(value) if field.opt.parse else value
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
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
    OfFile, DEVICE, (OomOptions, "number total_memory"), (Selection, "by top"), said=("by",), top=3
)
FragmentationArguments = made(
    OfFile, DEVICE, (FragmentationOptions, "at"), (Selection, "top"), said=("at",), top=5
)
SimulateArguments = made(
    OfFile,
    DEVICE,
    (SimulateOptions, "settings total_memory search"),
    (Changing, "scale category"),
    (Selection, "include"),
    said=("include",),
)
StepsArguments = made(OfFile, DEVICE, (StepOptions, "annotation period"), (Selection, "top"), top=8)


class AtArguments(made(OfFile, DEVICE, CHOSEN, said=("by", "include"), top=5), kw_only=True):  # type: ignore[misc, call-arg]
    """`at`."""

    when: Annotated[str, Meta(description=WORDS["at"])]


class SqlArguments(OfFile, kw_only=True):
    """`sql`."""

    query: Annotated[str, Meta(description="none: lists tables and columns")] = ""


class MoreArguments(Nothing, kw_only=True):
    """`more`."""

    cursor: str


T = TypeVar("T", bound=Nothing)
# What the library says, in the words of a caller.
_WORDS = {
    "Object contains unknown field": "no such argument:",
    "Object missing": "missing",
    "Expected": "expected",
    "`": "",
}
_PLACE = re.compile(r"^(.*?) - at `\$\.?(.*?)`$")


def read_arguments(record: type[T], given: Mapping[str, Any]) -> T:
    """The arguments as the record of a tool; a number may come as text. Raises UsageError that says
    which one is wrong, and which there are."""
    try:
        return convert(given, record, strict=False)
    except ValidationError as error:
        names = ", ".join(record.__struct_fields__)
        place = _PLACE.match(str(error))
        words = f"{place[2]}: {place[1]}" if place and place[2] else str(error)
        for theirs, ours in _WORDS.items():
            words = words.replace(theirs, ours)
        raise UsageError(f"{words}; the arguments are: {names}") from None


def schema_of(record: type[Nothing]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, without what says nothing."""
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
