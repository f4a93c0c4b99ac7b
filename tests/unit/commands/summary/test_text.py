"""Tests of commands/summary/text.py, with 80 and 160 columns."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from memreplay.analysis.trust.ring import Sign
from memreplay.commands.summary.result import SnapshotSummary
from memreplay.commands.summary.text import summary_document
from memreplay.render.plain import render_plain
from tests.unit.commands.results import ODD_SUMMARY, SUMMARY, summary_of

AT_80_OR_160 = """\
/data/run 7/rank0.pkl
format       150.0 MiB pickle, protocol 4
written by   PyTorch 2.5 or later
stacks       2,048 distinct, of 5,120 distinct frames
annotations  12
settings     expandable_segments = true

device 0: 22,331 events in 1 min 23.5 s, exact
from          2026-07-12 16:40:22.000000 UTC
to            2026-07-12 16:41:45.500000 UTC
actions       alloc 8,000, free_requested 7,331, free_completed 7,000
with a stack  20,000 of 22,331 events
segments      123 at the end, 12.0 GiB reserved, 4.0 GiB of it active
{check}

measure       start      peak  at event       end
requested   2.0 GiB  10.0 GiB     3,737   4.0 GiB  exact
held        2.0 GiB  10.0 GiB     3,737   4.0 GiB  exact
active      2.0 GiB  10.0 GiB     3,737   4.0 GiB  exact
allocated   2.0 GiB  10.0 GiB     3,737   4.0 GiB  exact
reserved   12.0 GiB  12.0 GiB     start  12.0 GiB  exact

blocks at the end  count     size  requested
active_allocated     900  4.0 GiB    4.0 GiB
inactive              40  7.0 GiB          -"""

ODD_AT_80 = """\
/data/run 7/rank0.pkl
format       9.0 MiB gzip of 150.0 MiB pickle, protocol 4
written by   PyTorch 2.5 or later
stacks       none recorded
times        none recorded
annotations  12
settings     all at their defaults

device 0: 22,331 events, not trustworthy (reserved: exact)
actions       alloc 8,000, free_requested 7,331, free_completed 7,000
with a stack  none
parts         3 pools, 2 streams (peak --by pool, --by stream)
segments      123 at the end, 12.0 GiB reserved, 4.0 GiB of it active
check         final state off by up to 512 B, 7,900 block sizes proven and 13
              assumed, 3 unmatched frees, 0 double allocations, ring overflowed
unknown       1 action

measure       start      peak  at event       end
requested   2.0 GiB  10.0 GiB     3,737   4.0 GiB  not trustworthy
reserved   12.0 GiB  12.0 GiB     start  12.0 GiB  exact

blocks at the end  count     size  requested
active_allocated     900  4.0 GiB    4.0 GiB
inactive              40  7.0 GiB          -

warning: the recorder's ring buffer was full: these numbers cover only the
  last events, and an earlier, higher peak may be missing; next time, raise
  max_entries in torch.cuda.memory._record_memory_history(max_entries=...), or
  dump sooner
warning: blocks were freed that were not live, so events are missing; next
  time, record without a pause and without skip_actions
warning: made up later"""


def render(summary: SnapshotSummary, width: int = 80) -> str:
    return render_plain(summary_document(summary), width=width)


@pytest.mark.parametrize("width, gap", [(80, "\n              "), (160, " ")], ids=["80", "160"])
def test_text_is_as_expected(width: int, gap: str) -> None:
    check = "check         final state matches, 7,900 block sizes proven, 0 unmatched frees,"
    assert render(SUMMARY, width) == AT_80_OR_160.format(
        check=f"{check}{gap}0 double allocations, no ring overflow"
    )


def test_text_of_an_unusual_file_is_as_expected() -> None:
    assert render(ODD_SUMMARY) == ODD_AT_80


@pytest.mark.parametrize(
    "event, shown", [(-1, "start"), (2_999, "start"), (3_000, "3,000"), (3_001, "3,001")]
)
def test_peak_before_a_range_is_shown_as_start(event: int, shown: str) -> None:
    measures = tuple(replace(one, peak_event=event) for one in SUMMARY.devices[0].measures)
    lines = render(summary_of(first_event=3_000, measures=measures)).splitlines()
    (head,) = (number for number, line in enumerate(lines) if line.startswith("measure "))
    rows = [line.split() for line in lines[head + 1 : head + 1 + len(measures)]]
    assert [row[5] for row in rows] == [shown] * len(measures)


def test_only_the_state_is_shown_without_events() -> None:
    text = render(
        summary_of(events=0, trace_events=0, actions={}, trusted=False, reasons=("no_events",))
    )
    assert "\ndevice 0: no events were recorded; only the final state is known\nsegments  " in text
    assert "\nnote: next time, call torch.cuda.memory._record_memory_history()" in text
    assert "warning" not in text


def test_first_line_has_the_verdict() -> None:
    assert " 23.5 s, exact\n" in render(SUMMARY)
    own = SUMMARY.devices[0].measures
    estimated = tuple(replace(one, exactness="estimated") for one in own)
    assert " 23.5 s, estimated\n" in render(summary_of(measures=estimated))
    some = (*own[:2], *estimated[2:4], replace(estimated[4], reasons=("segments_disagree",)))
    assert (" 23.5 s, exact (active, allocated: estimated; reserved: not trustworthy)\n") in render(
        summary_of(measures=some), 120
    )
    # These reasons don't concern any single measure.
    doubted = summary_of(trusted=False, reasons=("unmatched_frees",))
    assert " 23.5 s, not trustworthy\n" in render(doubted)
    last = tuple(replace(one, reasons=("ring_overflow_likely",)) for one in own)
    lossy = summary_of(measures=last, trusted=False, reasons=("ring_overflow_likely",))
    assert " 23.5 s, exact for the last 22,331 events\n" in render(lossy)


def test_evidence_of_a_full_ring_buffer_is_listed() -> None:
    signs = get_args(Sign)
    text = " ".join(render(summary_of(overflow="likely", overflow_signs=signs), 200).split())
    assert "double allocations, ring probably overflowed" in text
    assert "ring buffer probably full: annotations" in text
    assert "exactly 22,331 events, a typical max_entries" in text
    assert text.count("probably full") == len(signs)
    text = render(summary_of(overflow="yes", dropped_events=5003), 200)
    assert "ring buffer   dropped at least 5,003 events before these" in text
    assert "ring buffer" not in render(SUMMARY)


def test_differences_from_the_final_state_are_shown() -> None:
    first, second, *others = SUMMARY.devices[0].measures
    apart = (first, replace(second, reconciliation_bytes=1_536), *others)
    assert "check         final state off by up to 1,536 B, " in render(summary_of(measures=apart))
    other_blocks = summary_of(reasons=("blocks_disagree",), trusted=False)
    assert "check         final blocks differ, " in render(other_blocks)
    assert "check         range ends before the trace does, " in render(
        summary_of(reconciliation_bytes=None)
    )


def test_final_state_is_omitted_without_segments() -> None:
    text = render(summary_of(segments=0, states=(), reconciliation_bytes=5))
    assert "\nsegments " not in text
    assert "blocks at the end" not in text
    assert "odd" not in text


def test_file_without_devices_has_a_note() -> None:
    assert render(replace(SUMMARY, devices=())).endswith(
        "\n\nnote: nothing to show: the file has neither events nor segments"
    )


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"container": "zstd", "file_bytes": 2048}, "2.0 KiB Zstandard of 150.0 MiB pickle, proto"),
        ({"container": "zstd", "file_bytes": None}, "Zstandard of 150.0 MiB pickle, protocol 4"),
        ({"protocol": -1}, "150.0 MiB JSON"),
    ],
)
def test_format_and_compression_are_shown(changes: dict[str, object], words: str) -> None:
    summary = replace(SUMMARY, **changes)
    assert f"format       {words}" in render(summary)


def test_settings_are_escaped_and_cut() -> None:
    settings: dict[str, object] = {
        "a": "x\x1b[31m",
        "b": [1, None],
        "c": "y" * 500,
        "d": "",
    }
    text = render(replace(SUMMARY, settings_changed=settings), 160)
    assert "settings     a = x\\x1b[31m\n             b = [1, null]\n" in text
    assert "y" * 500 not in text.replace("\n             ", "")
    assert '             d = ""\n' in text


def test_long_file_name_keeps_its_end() -> None:
    name = "/a" * 60 + "/rank0.pkl"
    first = render(replace(SUMMARY, file=name)).splitlines()[0]
    assert first.startswith("…/a/a")
    assert first.endswith("/rank0.pkl")
    assert len(first) <= 80
