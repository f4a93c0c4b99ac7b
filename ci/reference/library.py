"""Generate the page of the Python API: every public name with its signature and docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import memreplay
from ci.reference.source import Shape, shape_of
from ci.reference.words import code, marked, table
from memreplay import integrations
from memreplay.snapshot import columns

HEAD = """\
# The Python API, name by name
*What does each name take, give and raise?*

`make reference` generates this page from the docstrings; `help(memreplay.peak)` prints the same.
[The Python API](../library.md) explains with examples how to use these names. Bytes are int, times
are int microseconds since the epoch, an event is given by its index in its device's trace, and
arrays are read-only NumPy arrays, of shape (rows,) unless noted.

Functions that ask what a command asks take a `selection`, or fields of a [Selection](#selection) as
keywords (`**choices`): `memreplay.peak(snap, by="file", top=5)`. The records that they return have
the keys of [the command's JSON](json.md).

"""
# Names in the order in which a user needs them.
SECTIONS = {
    "Read a snapshot": ("open", "Snapshot", "Moment", "Limits", "Frame"),
    "Tables": ("Events", "Ooms", "Stacks", "Frames", "Segments", "Blocks", "Annotations", "table"),
    "Replay it": ("Replay", "Usage", "PeakPoint", "LiveSet", "Lifetimes"),
    "Ask what the commands ask": (
        "report",
        "summary",
        "peak",
        "at",
        "timeline",
        "allocations",
        "modules",
        "diff",
        "fleet",
        "gate",
        "baseline",
        "segments",
        "steps",
        "leaks",
        "fragmentation",
        "oom",
        "plan",
        "simulate",
        "retold",
        "view",
        "PageView",
        "to_json",
    ),
    "Specify a query": ("Selection", "When", "Filters", "Rule"),
    "Record, and estimate": ("record", "Recording", "estimate", "estimating", "Estimate"),
    "Errors": (
        "MemreplayError",
        "UsageError",
        "NothingToTellError",
        "MissingExtraError",
        "SnapshotError",
        "TruncatedError",
        "UnsafePickleError",
        "LimitError",
    ),
}
TABLES = SECTIONS["Tables"][:-1]
# Names from a module other than memreplay itself, and how users write that module.
ELSEWHERE: dict[str, Any] = {
    **dict.fromkeys(TABLES, (columns, "")),
    "Recording": (integrations, "memreplay.integrations."),
}
# The public members of classes that other parts of the package also use, as named in library.md,
# record.md and estimate.md. For all other classes, members without an underscore are public.
MEMBERS = {
    "Snapshot": (
        "file",
        "file_bytes",
        "container",
        "range",
        "protocol",
        "stream_bytes",
        "truncation",
        "settings",
        "kept",
        "devices",
        "trace_events",
        "events",
        "ooms",
        "stacks",
        "frames",
        "segments",
        "blocks",
        "annotations",
        "text",
        "metadata",
        "stack",
        "frame",
        "pool_id",
        "action_name",
        "state_name",
        "replay",
        "view",
    ),
    "Replay": (
        "device",
        "events",
        "first_event",
        "start",
        "peak",
        "usage",
        "live_at",
        "lifetimes",
        "measure",
        "carried_over_bytes",
        "end_bytes",
        "reconciliation_bytes",
        "unmatched_frees",
        "double_allocs",
        "size_mismatches",
        "unknown_actions",
        "time_us",
        "event_at",
        "simulate",
        "recorded",
    ),
    "Usage": (
        "measure",
        "pool",
        "stream",
        "series",
        "start_bytes",
        "end_bytes",
        "peak",
        "minimum",
        "mean_bytes",
        "peaks",
        "ranges",
        "parts",
        "lifetimes",
        "live_at",
        "reconciliation_bytes",
    ),
    "record": ("path", "recording", "start", "stop", "step", "dump", "snapshot", "holders"),
    "Recording": ("path", "active", "begin", "step", "dump", "end"),
    "estimating": ("step", "estimate"),
}
# Users get these objects from functions and methods, so the constructors aren't documented.
MADE = ("Snapshot", "Replay", "Usage", "PageView", "Estimate", *TABLES)
NO_ARGUMENTS = (*MADE, "estimating", "LiveSet", "Lifetimes", "PeakPoint", "Frame")


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD.rstrip("\n") + "\n", *_sections()])


def found(name: str) -> Any:
    """Return the object with this name."""
    return getattr(ELSEWHERE.get(name, (memreplay, ""))[0], name)


def documented() -> Iterator[tuple[str, str]]:
    """Yield each name and member on the page with its docstring."""
    for names in SECTIONS.values():
        for name in names:
            shape = shape_of(found(name), name)
            yield name, shape.doc
            yield from ((f"{name}.{one.name}", one.doc) for one in _members(name, shape))


def _sections() -> Iterator[str]:
    for title, names in SECTIONS.items():
        yield f"## {title}\n"
        for name in names:
            yield from _told(name, shape_of(found(name), name))


def _members(name: str, shape: Shape) -> list[Shape]:
    wanted = MEMBERS.get(name)
    members = {member.name: member for member in shape.members}
    if wanted is None:
        return [one for one in members.values() if not one.name.startswith("_")]
    missing = [one for one in wanted if one not in members]
    assert not missing, f"{name} has no {', '.join(missing)}"
    return [members[one] for one in wanted]


def _told(name: str, shape: Shape) -> Iterator[str]:
    """Yield the part about one name."""
    yield f"### {name}\n"
    if shape.bases:
        yield f"Is a {', '.join(f'[{base}](#{base.lower()})' for base in shape.bases)}.\n"
    where = ELSEWHERE.get(name, (None, "memreplay."))[1]
    if shape.signature and name not in NO_ARGUMENTS:
        yield f"```text\n{where}{shape.signature}\n```\n"
    yield from prose(shape.doc)
    members = _members(name, shape)
    values = [one for one in members if not one.signature]
    if values:
        defaults = any(one.default for one in values)
        head = ("name", "type", *(["default"] if defaults else []), "meaning")
        rows = []
        for one in values:
            default = [code(one.default) if one.default else ""] if defaults else []
            kind = code(one.kind.replace(" | ", " or "))
            rows.append((code(one.name), kind, *default, marked(one.doc)))
        yield table(head, *rows)
    for one in members:
        if one.signature:
            yield f"```text\n.{one.signature}\n```\n"
            yield from prose(one.doc)


_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def prose(doc: str) -> Iterator[str]:
    """Yield a docstring as Markdown: paragraphs, and sections as lists."""
    first, *sections = _HEADING.split(doc)
    for paragraph in re.split(r"\n\s*\n", first.strip()):
        if paragraph:
            yield marked(paragraph) + "\n"
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**\n"
        yield "".join(_item(*item) for item in _items(body))


def _items(body: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section: a line and the indented lines below it."""
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, text = entry.partition("\n")
        yield head.strip(), inspect.cleandoc(text)


def _item(head: str, text: str) -> str:
    name, colon, kind = head.partition(" : ")
    said = marked(text)
    if colon:
        return f"- `{name}` ({marked(kind)}): {said}\n"
    return f"- `{head}`: {said}\n" if said else f"- {marked(head)}\n"
