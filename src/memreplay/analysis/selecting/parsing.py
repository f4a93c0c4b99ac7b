"""Parse moments, addresses, pools, keys and limits.

Each function raises a UsageError that says what to write instead. Sizes and shares are in sizes.py.
"""

from __future__ import annotations

import re

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.errors import UsageError
from memreplay.io.limits import Limits
from memreplay.snapshot.model import MEASURES, By, Edge, MeasureName, When

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
_EVENT = r"\d{1,15}"
_ELAPSED = r"\+?(\d{1,12}(?:\.\d*)?|\.\d+)(us|ms|s|min|h)"
_EPOCH = r"@(-?\d{1,12}(?:\.\d*)?)"
_EDGES = ("start", "end", "peak")
_POOL = r"\(?(\d{1,18})[:,] ?(\d{1,18})\)?"
_LIMIT = r"(\w+)=(\d{1,18})([KMG]?)"
_POWERS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ADDRESS = r"(0[xX][0-9a-fA-F]{1,16}|\d{1,20})(?:#(-?\d{1,15}))?"
# A block as shown in PyTorch's viewer, such as b7f12a0000000_3 or b'7f12a0000000_3. The b and the
# suffix are optional. Hexadecimal numbers don't need 0x, unless they're so short that they could be
# a typo.
_VIEWER = (
    r"(?:b'?(?:0[xX])?(?P<block>[0-9a-fA-F]{1,16})|0[xX](?P<marked>[0-9a-fA-F]{1,16})"
    r"|(?P<bare>[0-9a-fA-F]{8,16}))(?P<number>_\d{1,15})?"
)
_SEGMENT = r"s'?[0-9a-fA-F]{1,16}(?:_\d{1,15})?"
# Texts that are addresses rather than another kind of moment: 0x…, a number with #, or at least 8
# hex digits as in the viewer. An annotation is unlikely to have such a name.
_PLAIN_ADDRESS = (
    r"0[xX].*|\d{1,20}#.*|[bs]'?(?:0[xX])?[0-9a-fA-F]{8,16}(?:_\d{1,15})?"
    r"|\d[0-9a-fA-F]{7,15}(?:_\d{1,15})?"
)
LEAST_ADDRESS = 1 << 40  # lower than any GPU address, higher than any event number
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
WHEN_FORMS = (
    "an event (1200), a time since the start (1.5s, 300ms), a time of day (12:03:05.2), a UTC time"
    " (2026-01-21T10:15:00), @SECONDS since the epoch, start, end, peak (peak:2 for the second"
    " highest), oom (oom:2 for the second failed request), step:3, an annotation (NAME, NAME#2 for"
    " the second of that name) or an address (0x7f12a0000000, …#2 for its second allocation);"
    " add :end or :peak to a step or an annotation for its end or its peak"
)
"""The forms of a moment, for help and errors."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse sizes such as `40GiB,24GiB` to bytes."""
    return tuple(parse_size(one) for one in text.split(","))


def parse_fraction(text: str) -> float:
    """Parse `1%` or `0.01` to a share from 0.0 to 1.0."""
    bare = text.strip()
    try:
        found = float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise UsageError(f"{text!r} is not a share; give 1% or 0.01, at most 100%")
    return found


def parse_ways(text: str) -> By:
    """Parse one or several distinct keys, such as `category,file`."""
    from memreplay.analysis.groups.ways import ways_of  # imported late: rarely given

    return ",".join(ways_of(text))


def way_names() -> tuple[str, ...]:
    """Return the names of all keys."""
    from memreplay.analysis.groups.ways import WAYS  # imported late: for shell completion

    return tuple(WAYS)


def parse_measures(text: str) -> tuple[MeasureName, ...]:
    """Parse distinct measures, such as `held,active`."""
    found: dict[MeasureName, None] = {}
    for name in map(str.strip, text.split(",")):
        if name not in MEASURES:
            raise UsageError(f"{name!r} is not one of {', '.join(MEASURES)}")
        found[name] = None
    return tuple(found)


def parse_pool(text: str) -> tuple[int, int]:
    """Parse a pool: `default`, `0:1`, or as in a snapshot, `(0, 1)`."""
    if text.strip() == "default":
        return 0, 0
    match = re.fullmatch(_POOL, text.strip())
    if match is None:
        raise UsageError(f"{text.strip()!r} is not a pool; give its two numbers (0:1), or default")
    return int(match[1]), int(match[2])


def parse_stream(text: str) -> int:
    """Parse a stream number, decimal or hexadecimal with 0x."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise UsageError(f"{text!r} is not a stream; give its number (0, 0x55d2c0)") from None


def parse_limit(text: str) -> tuple[str, int]:
    """Parse a limit's name and value, such as `string_bytes=128M`. K, M and G are powers of
    1,024.
    """
    match = re.fullmatch(_LIMIT, text)
    names = Limits.__struct_fields__
    if match is None or match[1] not in names:
        raise UsageError(f"{text!r} is not a limit; give NAME=N with one of {', '.join(names)}")
    number = int(match[2]) * _POWERS[match[3]]
    if not 0 < number < 2**63:
        raise UsageError(f"{text!r}: a limit must be from 1 to 2**63 - 1")
    return match[1], number


def parse_pattern(text: str) -> str:
    """Check a regular expression, so that mistakes are reported before a large file is read."""
    from memreplay.analysis.selecting.filters import searches  # imported late: rarely given

    searches(text)
    return text


def _moment(text: str) -> When | None:
    """Parse an event (`1200`), a time (`1.5s`, `300ms`), a time since the epoch
    (`@1768990500.25`), or a date and time (`2026-01-21T10:15:00`). Return None for anything else.
    """
    from datetime import datetime, timedelta, timezone  # imported late: rarely given
    from decimal import Decimal

    if re.fullmatch(_EVENT, text):
        return When("event", int(text))
    if match := re.fullmatch(_ELAPSED, text):
        return When("elapsed", int(Decimal(match[1]) * _UNITS[match[2]]))
    if match := re.fullmatch(_EPOCH, text):
        return When("time", int(Decimal(match[1]) * 1_000_000))
    try:
        at = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    since = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return When("time", since // timedelta(microseconds=1))


def parse_when(text: str, edge: Edge = "start") -> When:
    """Parse a moment in any form of WHEN_FORMS.

    Anything else is an annotation's name, and so is anything after the prefix `annotation:`. `edge`
    is what a step or annotation means if the text doesn't say.
    """
    text = text.strip()
    if text in ("start", "end"):
        return When("end" if text == "end" else "start")
    if match := re.fullmatch(r"(peak|oom)(?::(\d{1,9}))?", text, re.ASCII):
        return When("oom" if match[1] == "oom" else "peak", int(match[2] or 1))
    if match := re.fullmatch(r"step:(-?\d{1,9})(?::(start|end|peak))?", text, re.ASCII):
        return When("step", int(match[1]), edge=match[2] or edge)  # type: ignore[arg-type]
    if name := text.removeprefix("annotation:"):
        if name != text:
            return _annotation(name, edge)
        if _is_address(text):
            return parse_address(text)
        if match := re.fullmatch(_CLOCK, text, re.ASCII):
            return When("time_of_day", _of_day(text, match))
        if not re.match(r"[\d@+.-]", text):
            return _annotation(text, edge)
        if moment := _moment(text):
            return moment
    raise UsageError(f"{text!r} is not a moment; give {WHEN_FORMS}")


def parse_stop(text: str) -> When:
    """Parse the end of a range: a step or annotation means its end."""
    return parse_when(text, "end")


def parsed_when(given: When | str | int) -> When:
    """Return the moment, parsing it if it's text. An int is an event's number."""
    return given if isinstance(given, When) else parse_when(str(given))


def _of_day(text: str, match: re.Match[str]) -> int:
    """Parse a time of day, such as `12:03` or `12:03:05.2`, to microseconds since midnight."""
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise UsageError(f"{text!r} is not a time of day, which ends at 23:59:59.999999")
    micros = int((match[4] or "").ljust(6, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros


def _is_address(text: str) -> bool:
    """Return whether a string is an address rather than an event number or an annotation's name."""
    if re.fullmatch(r"\d{1,20}", text, re.ASCII):
        return int(text) >= LEAST_ADDRESS
    return re.fullmatch(_PLAIN_ADDRESS, text, re.ASCII) is not None


def _annotation(text: str, edge: Edge) -> When:
    """Parse `NAME`, `NAME#k` or `NAME:end` as the annotation's edge after the colon, or else as
    `edge`.
    """
    name, _, given = text.rpartition(":")
    if name and given in _EDGES:
        return When("annotation", name=name, edge=given)  # type: ignore[arg-type]
    return When("annotation", name=text, edge=edge)


def parse_address(text: str) -> When:
    """Parse an address (`0x7f12a0000000` or `139…`, optionally with `#k`) or a block's name in
    PyTorch's viewer, as the moment of its allocation.
    """
    bare = text.strip()
    address, number = -1, None
    if match := re.fullmatch(_ADDRESS, bare, re.ASCII):
        address = int(match[1], 16 if match[1][:2] in ("0x", "0X") else 10)
        number = match[2]
    elif match := re.fullmatch(_VIEWER, bare, re.ASCII):
        address = int(match["block"] or match["marked"] or match["bare"], 16)
        number = match["number"]
    elif re.fullmatch(_SEGMENT, bare, re.ASCII):
        raise UsageError(
            f"{text!r} is a segment in PyTorch's viewer, not a block; memreplay"
            " fragmentation --segments shows segments"
        )
    if address < 0 or address >> 64:
        raise UsageError(
            f"{text!r} is not an address; give 0x7f12a0000000, 0x7f12a0000000#2, or a"
            " block of PyTorch's viewer, b7f12a0000000_2"
        )
    return When("address", address, name=number or None)
