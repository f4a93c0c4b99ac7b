"""What each tool is asked, as records: their JSON Schemas are made of these, and arguments read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, json

from memreplay.errors import UsageError

# A description is there where the name does not say it: all of them are read with every request.
Top = Annotated[int, Meta(ge=0, le=2**31 - 1, description="rows; 0: all")]
By = Annotated[
    str,
    Meta(
        description="stack (default), function, file, module, category, phase, annotation, stream,"
        " pool, size; several: category,file"
    ),
]
ByToo = Annotated[str, Meta(description="as in peak")]
When = Annotated[
    str,
    Meta(
        description="peak, peak:2, oom, end, step:3, 1200 (event), 1.5s, an annotation (NAME:peak)"
    ),
]
WhenToo = Annotated[str, Meta(description="as in at")]
Size = Annotated[str, Meta(description="as 80GiB")]
Pattern = Annotated[str, Meta(description="regex on file:line or function")]
Measure = Literal["requested", "held", "active", "allocated", "reserved"]


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


class OfDevice(OfFile, kw_only=True):
    """Of one device of it, or all."""

    device: int | UnsetType = UNSET


class ReportArguments(OfDevice, kw_only=True):
    """`report`."""

    total_memory: Size | UnsetType = UNSET


class Chosen(OfDevice, kw_only=True):
    """What alone counts, and in which groups."""

    by: By | UnsetType = UNSET
    top: Top = 5
    measure: Measure = "requested"
    include: Pattern | UnsetType = UNSET
    exclude: str | UnsetType = UNSET


class AtArguments(Chosen, kw_only=True):
    """`at`."""

    when: When
    by: ByToo | UnsetType = UNSET


class DiffArguments(Nothing, kw_only=True):
    """`diff`."""

    base: str
    new: str
    when: WhenToo = "peak"
    by: ByToo | UnsetType = UNSET
    top: Top = 8
    measure: Measure = "requested"
    device: int | UnsetType = UNSET
    salvage: bool = False


class LeaksArguments(OfDevice, kw_only=True):
    """`leaks`."""

    by: ByToo | UnsetType = UNSET
    top: Top = 3
    windows: (
        Annotated[int, Meta(ge=5, le=4096, description="equal parts in place of steps")] | UnsetType
    ) = UNSET
    total_memory: Size | UnsetType = UNSET


class OomArguments(OfDevice, kw_only=True):
    """`oom`."""

    oom: Annotated[int, Meta(ge=1, description="which failed request")] = 1
    by: ByToo | UnsetType = UNSET
    top: Top = 3
    total_memory: Size | UnsetType = UNSET


class FragmentationArguments(OfDevice, kw_only=True):
    """`fragmentation`."""

    when: WhenToo | UnsetType = UNSET
    top: Top = 5


class SimulateArguments(OfDevice, kw_only=True):
    """`simulate`."""

    settings: Annotated[
        str, Meta(description="as PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True")
    ] = ""
    total_memory: Size | UnsetType = UNSET
    search: Annotated[bool, Meta(description="try some 30 settings")] = False
    scale: (
        Annotated[
            float, Meta(ge=0, le=1000, description="of the chosen allocations' sizes; 0: none")
        ]
        | UnsetType
    ) = UNSET
    category: Annotated[str, Meta(description="chosen: activations")] | UnsetType = UNSET
    include: Annotated[str, Meta(description="chosen: regex")] | UnsetType = UNSET


class StepsArguments(OfDevice, kw_only=True):
    """`steps`."""

    annotation: Annotated[str, Meta(description="what a step is, else found")] = ""
    period: Annotated[int, Meta(ge=0, description="or so many events")] = 0
    top: Top = 8


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
