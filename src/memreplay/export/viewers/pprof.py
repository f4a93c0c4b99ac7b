"""Write stacks as an uncompressed pprof profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.export.viewers.protobuf import data, number, packed, text
from memreplay.export.viewers.stack_names import profile_name

if TYPE_CHECKING:
    from memreplay.export.viewers.records import StacksReport

# Field numbers from profile.proto, by message.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 3, 4, 5, 6
_TIME_NS, _COMMENT, _DEFAULT_TYPE = 9, 13, 14
_TYPE, _UNIT = 1, 2
_LOCATION_IDS, _VALUES, _LABEL = 1, 2, 3
_KEY, _TEXT = 1, 2
_ID, _MAPPING_ID, _LINE = 1, 2, 4
_MAPPING_FILE, _HAS_FUNCTIONS, _HAS_FILES, _HAS_LINES = 5, 7, 8, 9
_FUNCTION_ID, _LINE_NUMBER = 1, 2
_NAME, _FILE = 2, 4


class _Strings:
    """The string table; index 0 is ""."""

    def __init__(self) -> None:
        self.number = {"": 0}

    def of(self, string: str) -> int:
        return self.number.setdefault(string, len(self.number))


def render_pprof(report: StacksReport) -> Iterator[bytes]:
    """Yield the profile in chunks.

    The sample types are those of Go's heap profiles. Each sample has a label `device`.
    """
    strings = _Strings()
    kind = "inuse" if report.what == "live" else "alloc"
    for name, unit in (("objects", "count"), ("space", "bytes")):
        words = strings.of(f"{kind}_{name}"), strings.of(unit)
        yield data(_SAMPLE_TYPE, number(_TYPE, words[0]) + number(_UNIT, words[1]))
    for device in report.devices:
        # Written as text, because pprof treats the number 0 as missing.
        words = strings.of("device"), strings.of(str(device.device))
        label = data(_LABEL, number(_KEY, words[0]) + number(_TEXT, words[1]))
        for one in device.stacks:
            # Innermost frame first. Location ids start at 1.
            ids = packed(_LOCATION_IDS, (i + 1 for i in reversed(one.path)))
            yield data(_SAMPLE, ids + packed(_VALUES, (one.count, one.bytes)) + label)
    # Write one mapping for all functions, marked as symbolized, because some readers require one.
    known = b"".join(number(field, 1) for field in (_HAS_FUNCTIONS, _HAS_FILES, _HAS_LINES))
    yield data(_MAPPING, number(_ID, 1) + number(_MAPPING_FILE, strings.of(report.file)) + known)
    functions: dict[tuple[str, str], int] = {}
    for i, frame in enumerate(report.frames, 1):
        function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
        line = number(_FUNCTION_ID, function) + number(_LINE_NUMBER, max(frame.line, 0))
        yield data(_LOCATION, number(_ID, i) + number(_MAPPING_ID, 1) + data(_LINE, line))
    for (name, file), i in functions.items():
        # Leave out the system name. If it equalled the name, pprof would demangle it as C++ and cut
        # off `<module>`.
        yield data(
            _FUNCTION,
            number(_ID, i)
            + number(_NAME, strings.of(name or "(no name)"))
            + number(_FILE, strings.of(file)),
        )
    for device in report.devices:
        yield number(_COMMENT, strings.of(profile_name(report, device)))
    yield number(_DEFAULT_TYPE, strings.of(f"{kind}_space"))
    times = [device.time_us for device in report.devices if device.time_us is not None]
    if times and 0 <= min(times) < 2**63 // 1000:
        yield number(_TIME_NS, min(times) * 1000)
    for string in strings.number:
        yield text(_STRINGS, string)
