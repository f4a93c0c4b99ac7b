"""Values out of text that people write: moments, addresses, pools, ways to group, limits.

Each function takes the text and raises UsageError, which says what to write instead. Sizes and
shares are in sizes.py.
"""

from __future__ import annotations

import re

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.errors import UsageError
from memreplay.io.limits import Limits
from memreplay.snapshot.model import MEASURES, By, MeasureName, Moment, When

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
_EVENT = r"\d{1,15}"
_ELAPSED = r"\+?(\d{1,12}(?:\.\d*)?|\.\d+)(us|ms|s|min|h)"
_EPOCH = r"@(-?\d{1,12}(?:\.\d*)?)"
_EDGES = ("start", "end", "peak")
_POOL = r"\(?(\d{1,18})[:,] ?(\d{1,18})\)?"
_LIMIT = r"(\w+)=(\d{1,18})([KMG]?)"
_POWERS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ADDRESS = r"(0[xX][0-9a-fA-F]{1,16}|\d{1,20})(?:#(-?\d{1,15}))?"
# What PyTorch's viewer shows of a block, as b7f12a0000000_3 or b'7f12a0000000_3; people leave the
# b, or what follows the `_`, out. Hexadecimal without 0x: no short number, which may be a typo.
_VIEWER = (
    r"(?:b'?(?:0[xX])?(?P<block>[0-9a-fA-F]{1,16})|0[xX](?P<marked>[0-9a-fA-F]{1,16})"
    r"|(?P<bare>[0-9a-fA-F]{8,16}))(?P<number>_\d{1,15})?"
)
_SEGMENT = r"s'?[0-9a-fA-F]{1,16}(?:_\d{1,15})?"
# What is an address wherever a moment is named: 0x…, a number with #, or hexadecimal of 8 digits or
# more as the viewer shows it, as no annotation is called.
_PLAIN_ADDRESS = (
    r"0[xX].*|\d{1,20}#.*|[bs]'?(?:0[xX])?[0-9a-fA-F]{8,16}(?:_\d{1,15})?"
    r"|\d[0-9a-fA-F]{7,15}(?:_\d{1,15})?"
)
LEAST_ADDRESS = 1 << 40  # no trace has so many events, and no GPU has memory below
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
WHEN_FORMS = (
    "an event (1200), a time since the start (1.5s, 300ms), a time of day (12:03:05.2), a UTC time"
    " (2026-01-21T10:15:00), @SECONDS since the epoch, start, end, peak (peak:2 for the second"
    " highest), oom (oom:2 for the second failed request), step:3, an annotation (NAME, NAME#2 for"
    " the second of that name) or an address (0x7f12a0000000, …#2 for its second allocation);"
    " steps and annotations with :end or :peak for their end or the peak within"
)
"""How a moment is named, for help and errors."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """`40GiB,24GiB`: the bytes of each, 1 or more."""
    return tuple(parse_least_size(one) for one in text.split(","))


def parse_least_size(text: str) -> int:
    """A size of a byte or more."""
    size = parse_size(text)
    if size < 1:
        raise UsageError(f"{text!r} is too small here")
    return size


def parse_fraction(text: str) -> float:
    """`1%` or `0.01`: a share of a whole, 0.0 to 1.0."""
    bare = text.strip()
    try:
        found = float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise UsageError(f"{text!r} is not a share: give 1% or 0.01, to 100%")
    return found


def parse_ways(text: str) -> By:
    """`stack`, `file`, … or several, each once: `category,file`."""
    from memreplay.analysis.groups.ways import ways_of  # late: most starts name none

    return ",".join(ways_of(text))


def way_names() -> tuple[str, ...]:
    """The names of all ways to group."""
    from memreplay.analysis.groups.ways import WAYS  # late: a shell completes them

    return tuple(WAYS)


def parse_measures(text: str) -> tuple[MeasureName, ...]:
    """`held,active`: the measures that are named, each once."""
    found: dict[MeasureName, None] = {}
    for name in map(str.strip, text.split(",")):
        if name not in MEASURES:
            raise UsageError(f"{name!r} is not one of {', '.join(MEASURES)}")
        found[name] = None
    return tuple(found)


def parse_pool(text: str) -> tuple[int, int]:
    """`default`, `0:1`, or as a snapshot writes it `(0, 1)`."""
    if text.strip() == "default":
        return 0, 0
    match = re.fullmatch(_POOL, text.strip())
    if match is None:
        raise UsageError(f"{text.strip()!r} is not a pool: give its two numbers (0:1), or default")
    return int(match[1]), int(match[2])


def parse_stream(text: str) -> int:
    """A stream's number as a snapshot has it: decimal, or hexadecimal with 0x."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise UsageError(f"{text!r} is not a stream: give its number (0, 0x55d2c0)") from None


def parse_limit(text: str) -> tuple[str, int]:
    """`string_bytes=128M`: a limit's name and its new value; K, M and G are powers of 1,024."""
    match = re.fullmatch(_LIMIT, text)
    names = Limits.__struct_fields__
    if match is None or match[1] not in names:
        raise UsageError(f"{text!r} is not a limit: give NAME=N with one of {', '.join(names)}")
    number = int(match[2]) * _POWERS[match[3]]
    if not 0 < number < 2**63:
        raise UsageError(f"{text!r}: a limit is a number from 1 to 2**63 - 1")
    return match[1], number


def parse_pattern(text: str) -> str:
    """A regular expression that can be searched for, before a large file is read."""
    from memreplay.analysis.selecting.filters import searches  # late: few filter

    searches(text)
    return text


def parse_moment(text: str) -> Moment:
    """`1200`, `1.5s`, `300ms`, `@1768990500.25` (since the epoch), `2026-01-21T10:15:00`."""
    from datetime import datetime, timedelta, timezone  # late: few commands name a moment
    from decimal import Decimal

    text = text.strip()
    if re.fullmatch(_EVENT, text):
        return Moment("event", int(text))
    if match := re.fullmatch(_ELAPSED, text):
        return Moment("elapsed", int(Decimal(match[1]) * _UNITS[match[2]]))
    if match := re.fullmatch(_EPOCH, text):
        return Moment("time", int(Decimal(match[1]) * 1_000_000))
    try:
        at = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise UsageError(
            f"{text!r} is not a moment: give an event (1200), a time since the start (1.5s,"
            " 300ms), @SECONDS since the epoch, or a UTC time (2026-01-21T10:15:00)"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    since = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return Moment("time", since // timedelta(microseconds=1))


def parse_when(text: str) -> When:
    """A moment, in any of the forms that WHEN_FORMS lists. What has the form of no other is the
    name of an annotation; `annotation:` before it says that it's one in any case."""
    text = text.strip()
    if text in ("start", "end"):
        return When("end" if text == "end" else "start")
    if match := re.fullmatch(r"(peak|oom)(?::(\d{1,9}))?", text, re.ASCII):
        return When("oom" if match[1] == "oom" else "peak", int(match[2] or 1))
    if match := re.fullmatch(r"step:(-?\d{1,9})(?::(start|end|peak))?", text, re.ASCII):
        return When("step", int(match[1]), edge=match[2] or "start")  # type: ignore[arg-type]
    if name := text.removeprefix("annotation:"):
        if name != text:
            return _annotation(name)
        if _is_address(text):
            return parse_address(text)
        if match := re.fullmatch(_CLOCK, text, re.ASCII):
            return When("time_of_day", _of_day(text, match))
        if not re.match(r"[\d@+.-]", text):
            return _annotation(text)
        try:
            moment = parse_moment(text)
        except UsageError:
            pass
        else:
            return When(moment.kind, moment.value)
    raise UsageError(f"{text!r} is not a moment: give {WHEN_FORMS}")


def parsed_when(given: When | str) -> When:
    """The moment itself, or the one that a text names."""
    return parse_when(given) if isinstance(given, str) else given


def _of_day(text: str, match: re.Match[str]) -> int:
    """The microseconds since midnight of `12:03`, `12:03:05.2`."""
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise UsageError(f"{text!r} is not a time of day: they go up to 23:59:59.999999")
    micros = int((match[4] or "").ljust(6, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros


def _is_address(text: str) -> bool:
    """Whether a text is an address, and not an event's number or an annotation's name."""
    if re.fullmatch(r"\d{1,20}", text, re.ASCII):
        return int(text) >= LEAST_ADDRESS
    return re.fullmatch(_PLAIN_ADDRESS, text, re.ASCII) is not None


def _annotation(text: str) -> When:
    """`NAME`, `NAME#k`, `NAME:end`: its start, unless the text names another edge."""
    name, _, edge = text.rpartition(":")
    if name and edge in _EDGES:
        return When("annotation", name=name, edge=edge)  # type: ignore[arg-type]
    return When("annotation", name=text)


def parse_address(text: str) -> When:
    """`0x7f12a0000000`, `139…`, each with `#k`, or a block as PyTorch's viewer names it: the moment
    at which it is allocated."""
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
            f"{text!r} is a segment in PyTorch's viewer, not a block: memreplay"
            " fragmentation --segments shows segments"
        )
    if address < 0 or address >> 64:
        raise UsageError(
            f"{text!r} is not an address: give 0x7f12a0000000, or with #2, or a block as"
            " PyTorch's viewer shows it, b7f12a0000000_2"
        )
    return When("address", address, name=number or None)
