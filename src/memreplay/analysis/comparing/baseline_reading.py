"""Read and validate an untrusted baseline file."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import ValidationError, convert

from memreplay.analysis.comparing.baseline_record import SCHEMA, Baseline, BaselinePeak
from memreplay.errors import SnapshotError

MAX_BYTES = 4 << 20  # even with all groups of a large file, a baseline takes about 100 KB
_LIKE_ONE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"memreplay\.')


def is_baseline(data: bytes) -> bool:
    """Return whether this is a file written by memreplay: a JSON object with our `schema`.

    A snapshot can also be a JSON object, but without that key.
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
    """Parse a baseline. Raises SnapshotError with a one-line message."""
    if len(data) > MAX_BYTES:
        raise SnapshotError(
            "too long for a baseline", hint="save it again with memreplay gate --save-base"
        )
    try:
        found = _parsed(data)
    except (ValueError, RecursionError) as error:
        raise _broken(f"not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise _broken("not a JSON object")
    schema = found.get("schema")
    if schema != SCHEMA:
        raise SnapshotError(
            f"this is {_shown(schema)}, not {SCHEMA}",
            hint="create one with memreplay gate --save-base",
        )
    try:
        return _checked(convert(found, Baseline))
    except ValidationError as error:
        raise _broken(_words(error)) from None
    except UnicodeEncodeError:
        raise _broken("a key or measure contains an unpaired surrogate") from None


def _parsed(data: bytes) -> Any:
    return json.loads(data, parse_int=_integer)


def _integer(text: str) -> int:
    if len(text) > 20:  # Python parses very long numbers slowly
        raise ValueError("a number has more than 20 digits")
    return int(text)


def _checked(found: Baseline) -> Baseline:
    """Return the baseline if its numbers are consistent."""
    if len({device.device for device in found.devices}) != len(found.devices):
        raise _broken("a device appears twice")
    for i, device in enumerate(found.devices):
        for j, peak in enumerate(device.peaks):
            _check_peak(peak, len(found.frames), f"devices[{i}].peaks[{j}]")
    return found


def _check_peak(peak: BaselinePeak, frames: int, place: str) -> None:
    for k, group in enumerate(peak.groups):
        if any(frame >= frames for frame in group.frames):
            raise _broken(f"a group refers to a frame that doesn't exist, at {place}.groups[{k}]")
    if peak.groups or peak.groups_total:
        if sum(group.bytes for group in peak.groups) + peak.rest_bytes != peak.bytes:
            raise _broken(f"the groups of a peak don't add up to the peak, at {place}")
        if peak.groups_total < len(peak.groups):
            raise _broken(f"a peak has more groups than its count, at {place}")


def _words(error: ValidationError) -> str:
    """Describe a decoding error and its location, such as "expected `int`, got `str`, at
    devices[0].peaks[2].bytes".
    """
    what, _, place = str(error).rpartition(" - at ")
    what, place = (what, place) if what else (place, "")
    what = _cut(what.replace("Object missing required field", "there is no"))
    place = place.replace("`", "").replace("$.", "")
    return f"{what[:1].lower()}{what[1:]}" + (f", at {place}" if place else "")


def _broken(what: str) -> SnapshotError:
    return SnapshotError(
        f"damaged baseline: {what}", hint="save it again with memreplay gate --save-base"
    )


def _shown(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"
