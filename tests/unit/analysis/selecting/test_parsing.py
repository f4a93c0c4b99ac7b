"""Tests of analysis/selecting/parsing.py."""

from __future__ import annotations

import pytest

from memreplay.analysis.selecting.parsing import (
    parse_address,
    parse_fraction,
    parse_limit,
    parse_pool,
    parse_stop,
    parse_stream,
    parse_ways,
    parse_when,
    parsed_when,
)
from memreplay.errors import UsageError
from memreplay.snapshot.model import When


@pytest.mark.parametrize(
    "text, when",
    [
        ("0", When("event", 0)),
        ("1200", When("event", 1200)),
        ("1.5s", When("elapsed", 1_500_000)),
        ("+300ms", When("elapsed", 300_000)),
        ("7us", When("elapsed", 7)),
        (".25s", When("elapsed", 250_000)),
        ("2min", When("elapsed", 120_000_000)),
        ("@1768990500.25", When("time", 1_768_990_500_250_000)),
        ("@-0.000001", When("time", -1)),
        ("2026-01-21T10:15:00", When("time", 1_768_990_500_000_000)),
        ("2026-01-21 10:15:00.000001Z", When("time", 1_768_990_500_000_001)),
        ("2026-01-21T11:15:00+01:00", When("time", 1_768_990_500_000_000)),
    ],
)
def test_events_and_times_are_parsed(text: str, when: When) -> None:
    assert parse_when(text) == when
    assert parse_stop(text) == when


@pytest.mark.parametrize(
    "text, when",
    [
        ("step:3", When("step", 3, edge="end")),
        ("step:3:start", When("step", 3)),
        ("step:3:peak", When("step", 3, edge="peak")),
        ("work", When("annotation", name="work", edge="end")),
        ("work#2:start", When("annotation", name="work#2")),
        ("annotation:peak", When("annotation", name="peak", edge="end")),
        ("peak:2", When("peak", 2)),
    ],
)
def test_range_stops_at_the_end_of_steps_and_annotations(text: str, when: When) -> None:
    assert parse_stop(text) == when


@pytest.mark.parametrize(
    "text, when",
    [
        ("peak", When("peak", 1)),
        ("peak:3", When("peak", 3)),
        ("oom", When("oom", 1)),
        ("oom:2", When("oom", 2)),
        ("start", When("start")),
        (" end ", When("end")),
        ("step:3", When("step", 3, edge="start")),
        ("step:-1:end", When("step", -1, edge="end")),
        ("step:3:peak", When("step", 3, edge="peak")),
        ("12:03", When("time_of_day", 43_380_000_000)),
        ("12:03:05.2", When("time_of_day", 43_385_200_000)),
        ("0:00:00.000001", When("time_of_day", 1)),
        ("ProfilerStep#3", When("annotation", name="ProfilerStep#3")),
        ("step#-1:end", When("annotation", name="step#-1", edge="end")),
        ("step:end", When("annotation", name="step", edge="end")),
        ("step:x", When("annotation", name="step:x")),
        ("a b:peak", When("annotation", name="a b", edge="peak")),
        ("fwd:layer:start", When("annotation", name="fwd:layer")),
        ("fwd:layer", When("annotation", name="fwd:layer")),
        ("peaks", When("annotation", name="peaks")),
        ("peak:x", When("annotation", name="peak:x")),
        ("backward", When("annotation", name="backward")),
        ("b1_2", When("annotation", name="b1_2")),
        ("decade", When("annotation", name="decade")),
        # Always an annotation.
        ("annotation:peak", When("annotation", name="peak")),
        ("annotation:12:end", When("annotation", name="12", edge="end")),
        ("annotation:annotation:a", When("annotation", name="annotation:a")),
        # Always an address.
        ("0x10", When("address", 16)),
        ("16#-1", When("address", 16, "-1")),
        ("139655152795648", When("address", 139655152795648)),
        ("1099511627775", When("event", (1 << 40) - 1)),
        ("b7f064c000000_0", When("address", 0x7F064C000000, "_0")),
        ("b'7f064c000000_12", When("address", 0x7F064C000000, "_12")),
        ("7f064c000000", When("address", 0x7F064C000000)),
    ],
)
def test_moments_are_parsed(text: str, when: When) -> None:
    assert parse_when(text) == when
    assert parsed_when(text) == when
    assert parsed_when(when) is when


@pytest.mark.parametrize(
    "text",
    ["", "-1", "12x", "@", "1.5", "1st step", "1e9s", "5 s later", "2026-13-01", "annotation:"],
)
def test_invalid_moments_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a moment; give an event"):
        parse_when(text)


@pytest.mark.parametrize("text", ["24:00", "12:60", "12:00:60"])
def test_invalid_times_of_day_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time of day"):
        parse_when(text)


@pytest.mark.parametrize(
    "text, when",
    [
        ("0x10", When("address", 16)),
        ("0XfF#2", When("address", 255, "2")),
        (" 16#-1 ", When("address", 16, "-1")),
        ("0xffffffffffffffff", When("address", 2**64 - 1)),
        # A block ID as shown by PyTorch's viewer. The newest version adds a quote after the b.
        ("b7f064c000000_0", When("address", 0x7F064C000000, "_0")),
        ("b'7f064c000000_12", When("address", 0x7F064C000000, "_12")),
        ("7f064c000000_3", When("address", 0x7F064C000000, "_3")),
        ("0x7f064c000000_3", When("address", 0x7F064C000000, "_3")),
        ("704350000000_1", When("address", 0x704350000000, "_1")),
        ("b704350000000", When("address", 0x704350000000)),
        ("b0x7f064c000000", When("address", 0x7F064C000000)),
        ("7f064c000000", When("address", 0x7F064C000000)),
        ("139655152795648", When("address", 139655152795648)),
    ],
)
def test_addresses_are_parsed(text: str, when: When) -> None:
    assert parse_address(text) == when
    assert parse_when(text) == when


def test_segment_id_of_pytorchs_viewer_is_rejected() -> None:
    for text in ("s7f064c000000_0", "s'7f064c000000_0"):
        for parse in (parse_address, parse_when):
            with pytest.raises(UsageError, match="is a segment in PyTorch's viewer"):
                parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "ff", "0x", "-1", "1#", "0x1#a", str(2**64), "\u0661"),
        *("b", "b_0", "7f064c000000_", "b7f064c000000#1", "b7f064c000000_1#1", "7f064c000000_-1"),
        *("b" + "f" * 17, "x7f064c000000", "b''1000_0", "fff_0"),
    ],
)
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(
        UsageError,
        match="is not an address; give 0x",
    ):
        parse_address(text)


def test_shares_are_parsed() -> None:
    assert [parse_fraction(text) for text in ("1%", "0.01", " 100% ", "0", "1")] == [
        0.01, 0.01, 1, 0, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["-1%", "101%", "1.5", "nan", "x", "%", ""])
def test_invalid_shares_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a share"):
        parse_fraction(text)


# ---- limits, pools, streams, keys


@pytest.mark.parametrize(
    "text, value",
    [
        ("string_bytes=128M", ("string_bytes", 128 << 20)),
        ("memo_entries=7", ("memo_entries", 7)),
        ("kept_values=2K", ("kept_values", 2048)),
        ("stack_values=1G", ("stack_values", 1 << 30)),
        ("rows=5M", ("rows", 5 << 20)),
        ("devices=2000", ("devices", 2000)),
    ],
)
def test_limits_are_parsed(text: str, value: tuple[str, int]) -> None:
    assert parse_limit(text) == value


@pytest.mark.parametrize("text", ["", "x=1", "string_bytes", "string_bytes=-1", "string_bytes=1T"])
def test_invalid_limits_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a limit"):
        parse_limit(text)


def test_limit_of_zero_is_rejected() -> None:
    with pytest.raises(UsageError, match="a limit must be from 1"):
        parse_limit("string_bytes=0")


@pytest.mark.parametrize(
    "text, pool",
    [
        ("default", (0, 0)),
        ("0:1", (0, 1)),
        ("3,0", (3, 0)),
        ("(0, 1)", (0, 1)),
        (" 12:0 ", (12, 0)),
    ],
)
def test_pools_are_parsed(text: str, pool: tuple[int, int]) -> None:
    assert parse_pool(text) == pool


@pytest.mark.parametrize("text", ["", "nonsense", "1", "1:2:3", "-1:0", "0:" + "9" * 19])
def test_invalid_pools_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a pool; give its two numbers "):
        parse_pool(text)


@pytest.mark.parametrize("text, stream", [("7", 7), ("0x55d2c0", 0x55D2C0)])
def test_streams_are_parsed(text: str, stream: int) -> None:
    assert parse_stream(text) == stream


@pytest.mark.parametrize("text", ["", "x", "1.5"])
def test_invalid_streams_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a stream; give its number "):
        parse_stream(text)


@pytest.mark.parametrize(
    "text, by",
    [
        ("stack", "stack"),
        ("category,file", "category,file"),
        (" file , size,file", "file,size"),
        ("line,user-metadata", "line,user_metadata"),
        ("compile-context,module", "compile_context,module"),
    ],
)
def test_grouping_keys_are_parsed(text: str, by: str) -> None:
    assert parse_ways(text) == by


@pytest.mark.parametrize("text", ["", "colour", "file,", "file;size", "Stack"])
def test_invalid_grouping_keys_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not one of stack, line, innermost"):
        parse_ways(text)
