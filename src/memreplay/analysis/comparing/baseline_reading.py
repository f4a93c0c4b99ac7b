"""Reads a baseline file, which may hold anything: it is checked before it is believed."""

from __future__ import annotations

import json
import re
from typing import Any

from memreplay.analysis.comparing.baseline_record import (
    SCHEMA,
    Baseline,
    BaselineDevice,
    BaselinePeak,
)
from memreplay.errors import SnapshotError
from memreplay.snapshot.model import (
    MEASURES,
    EventRange,
    Frame,
    Group,
    MeasureName,
    Moment,
    MomentKind,
)

MAX_BYTES = 4 << 20  # a baseline of all groups of a large file is some 100 KB
_MOST = 2**62
_MOST_BYTES = 2**63  # what replays check their sums against
KINDS: tuple[MomentKind, ...] = ("event", "elapsed", "time")
_LIKE_ONE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"memreplay\.')


def is_baseline(data: bytes) -> bool:
    """Whether this is meant as a file of memreplay's own: a JSON object with such a `schema`.

    A snapshot may be a JSON object too, and has no such key.
    """
    if _LIKE_ONE.match(data):
        return True
    if not data.lstrip().startswith(b"{") or b'"memreplay.' not in data:
        return False
    try:
        found = _parsed(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and str(found.get("schema", "")).startswith("memreplay.")


def parse_baseline(data: bytes) -> Baseline:
    """The baseline that a file holds. Raises SnapshotError, in one line, for any other file."""
    if len(data) > MAX_BYTES:
        raise SnapshotError(
            "too long for a baseline", hint="write it again with memreplay baseline"
        )
    try:
        found = _parsed(data)
    except (ValueError, RecursionError) as error:
        raise _broken(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _broken("it is not an object")
    schema = found.get("schema")
    if schema != SCHEMA:
        raise SnapshotError(
            f"this is {_shown(schema)}, not {SCHEMA}",
            hint="make one with memreplay baseline",
        )
    return _Reader(found).baseline()


def _parsed(data: bytes) -> Any:
    return json.loads(data, parse_int=_integer)


def _integer(text: str) -> int:
    if len(text) > 20:  # Python takes its time for very long ones
        raise ValueError("a number of more than 20 digits")
    return int(text)


class _Reader:
    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found
        self.frames = [self.frame(one) for one in _list(found, "frames")]

    def baseline(self) -> Baseline:
        found = self.found
        devices = tuple(self.device(_object(one, "a device")) for one in _list(found, "devices"))
        if len({device.device for device in devices}) != len(devices):
            raise _broken("a device appears twice")
        return Baseline(
            file=_text(found, "file"),
            measure=_measure(found),
            rules=_text(found, "rules"),
            categories=tuple(_texts(found, "categories")),
            devices=devices,
            range=_range(found["range"]) if "range" in found else None,
        )

    def frame(self, row: object) -> Frame:
        if not isinstance(row, list) or len(row) != 3:
            raise _broken("a frame is not a list of function, file and line")
        function, file, line = row
        texts = isinstance(function, str) and isinstance(file, str)
        # A line may be below 0: that is what the snapshot said.
        number = isinstance(line, int) and not isinstance(line, bool) and _is_count(abs(line))
        if not texts or not number:
            raise _broken("a frame is not a list of function, file and line")
        return Frame(function, file, line)

    def device(self, found: dict[str, Any]) -> BaselineDevice:
        reasons = _object(found.get("reasons"), "reasons")
        for name in reasons:
            if name not in MEASURES:
                raise _broken(f"no measure is called {_shown(name)}")
        # A segment may be on device -1: that is what the snapshot said.
        device = -1 if found.get("device") == -1 else _count(found, "device")
        return BaselineDevice(
            device=device,
            peaks=tuple(self.peak(_object(one, "a peak")) for one in _list(found, "peaks")),
            reasons={name: tuple(_texts(reasons, name)) for name in MEASURES if name in reasons},
        )

    def peak(self, found: dict[str, Any]) -> BaselinePeak:
        groups = tuple(self.group(_object(one, "a group")) for one in _list(found, "groups"))
        at = found.get("event_index")
        event = -1 if at == -1 else _count(found, "event_index")
        peak = BaselinePeak(
            measure=_measure(found),
            category=_text_or_none(found, "category"),
            annotation=_text_or_none(found, "annotation"),
            bytes=_bytes(found, "bytes"),
            count=_count(found, "count"),
            event_index=event,
            groups=groups,
            groups_total=_count(found, "groups_total"),
            rest_bytes=_bytes(found, "rest_bytes"),
            rest_count=_count(found, "rest_count"),
        )
        if groups or peak.groups_total:
            if sum(group.bytes for group in groups) + peak.rest_bytes != peak.bytes:
                raise _broken("the groups of a peak do not add up to it")
            if peak.groups_total < len(groups):
                raise _broken("a peak has more groups than it says")
        return peak

    def group(self, found: dict[str, Any]) -> Group:
        ids = _list(found, "frames")
        if not all(_is_count(i) and i < len(self.frames) for i in ids):
            raise _broken("a group names a frame that does not exist")
        frames = tuple(self.frames[i] for i in ids)
        users = found.get("user")
        if not isinstance(users, bool):
            raise _broken("`user` must be true or false")
        return Group(
            label=_text(found, "label"),
            bytes=_bytes(found, "bytes"),
            count=_count(found, "count"),
            share=0.0,
            frames=frames,
            user=tuple(range(len(frames))) if users else (),
        )


def _broken(what: str) -> SnapshotError:
    return SnapshotError(
        f"a broken baseline: {what}", hint="write it again with memreplay baseline"
    )


def _object(found: object, name: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _broken(f"{name} is not an object")
    return found


def _list(found: dict[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if not isinstance(value, list):
        raise _broken(f"`{key}` must be a list")
    return value


def _texts(found: dict[str, Any], key: str) -> list[str]:
    values = _list(found, key)
    if not all(isinstance(value, str) for value in values):
        raise _broken(f"`{key}` must be a list of strings")
    return values


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise _broken(f"`{key}` must be a string")
    return value


def _range(found: object) -> EventRange:
    value = _object(found, "range")
    return EventRange(_moment(value.get("start")), _moment(value.get("stop")))


def _moment(found: object) -> Moment | None:
    if found is None:
        return None
    bound = _object(found, "a bound of range")
    for kind in KINDS:
        if bound.get("kind") == kind:
            value = bound.get("value")
            # A point in time may be before 1970.
            if isinstance(value, int) and not isinstance(value, bool) and _is_count(abs(value)):
                return Moment(kind, value)
    raise _broken("a bound of range is not a moment")


def _text_or_none(found: dict[str, Any], key: str) -> str | None:
    return None if key in found and found[key] is None else _text(found, key)


def _measure(found: dict[str, Any]) -> MeasureName:
    for name in MEASURES:
        if found.get("measure") == name:
            return name
    raise _broken(f"no measure is called {_shown(found.get('measure'))}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _count(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    if not _is_count(value):
        raise _broken(f"`{key}` must be a number, 0 or more")
    return value  # type: ignore[return-value, unused-ignore]


def _bytes(found: dict[str, Any], key: str) -> int:
    """A sum of sizes, which may be larger than any size."""
    value = found.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and _MOST <= value < _MOST_BYTES:
        return value
    return _count(found, key)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
