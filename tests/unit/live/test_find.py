"""Parts of cards: they add up to the card, and belong to the right process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.errors import NothingToTellError
from memreplay.live.find import Own, checked, combined, parts
from memreplay.live.result import CardPart, LiveReport
from memreplay.recording.processes import Process
from tests.unit.live.machine import GIB, MIB, card, device, recording


def by_kind(found: tuple[CardPart, ...]) -> dict[tuple[str, int | None], int]:
    return {(one.kind, one.pid): one.bytes for one in found}


def test_parts_of_a_recorded_card() -> None:
    (found,) = combined([card()], "", (recording(),)).cards
    assert by_kind(found.parts) == {
        ("allocated", 100): 40 * GIB,
        ("unused", 100): 5 * GIB,
        ("outside", 100): 1 * GIB,
        ("process", 4711): 33 * GIB,
        ("rest", None): 1 * GIB,
        ("free", None): 60 * GIB,
    }
    assert (found.index, found.is_dryrun) == (0, False)


def test_without_sizes_of_processes_the_rest_is_theirs() -> None:
    """As in a container, or under Windows."""
    processes = [Process(4711, "python", None), Process(100, "python", None)]
    (found,) = combined([card(processes=processes)], "", (recording(),)).cards
    assert by_kind(found.parts) == {
        ("allocated", 100): 40 * GIB,
        ("unused", 100): 5 * GIB,
        ("rest", None): 35 * GIB,
        ("free", None): 60 * GIB,
    }


sizes = st.integers(0, 100)


@given(
    total=st.integers(1, 200),
    free=sizes,
    processes=st.lists(st.tuples(st.integers(1, 6), st.none() | sizes), max_size=6),
    owns=st.lists(st.tuples(st.integers(1, 3), sizes, sizes), max_size=3, unique_by=lambda x: x[0]),
)
def test_parts_add_up_whatever_is_measured(
    total: int, free: int, processes: Any, owns: Any
) -> None:
    """The driver and the program answer one after the other, so their numbers may disagree."""
    listed = [Process(pid, "x", taken) for pid, taken in dict(processes).items()]
    recorded = [
        Own(recording(pid=pid), device(allocated_bytes=one, reserved_bytes=one + more))
        for pid, one, more in owns
    ]
    found = parts(total, free, listed, recorded)
    assert sum(one.bytes for one in found) == total
    assert found[-1].kind == "free"
    assert found[-1].bytes == min(free, total)
    assert all(one.bytes > 0 for one in found[:-1])
    # If everything fits, nothing is cut.
    own = {pid: (one, more) for pid, one, more in owns}
    expected: Counter[tuple[str, int | None]] = Counter()
    for pid, (one, more) in own.items():
        expected["allocated", pid] = one
        expected["unused", pid] = more
        expected["outside", pid] = max((dict(processes).get(pid) or 0) - one - more, 0)
    for pid, taken in dict(processes).items():
        if pid not in own:
            expected["process", pid] = taken or 0
    rest = total - min(free, total) - sum(expected.values())
    if rest >= 0:
        expected["rest", None] = rest
        expected["free", None] = min(free, total)
        assert by_kind(found) == {k: v for k, v in expected.items() if v or k[0] == "free"}


def test_each_recording_is_on_its_own_card() -> None:
    cards = [card(uuid="GPU-a", processes=[]), card(number=1, uuid="GPU-b", processes=[])]
    first = recording(device(uuid="b"), device(device=1, uuid="a", allocated_bytes=MIB))
    found = combined(cards, "", (first,)).cards
    assert [by_kind(one.parts)["allocated", 100] for one in found] == [MIB, 40 * GIB]


def test_without_an_id_the_process_list_says_which_card() -> None:
    """Older versions of PyTorch don't tell a card's id."""
    cards = [card(uuid="GPU-a", processes=[]), card(number=1, uuid="GPU-b")]
    found = combined(cards, "", (recording(device(uuid="")),)).cards
    assert [len(one.parts) for one in found] == [2, 6]
    both = [card(uuid="GPU-a"), card(number=1, uuid="GPU-b")]
    assert len(combined(both, "", (recording(device(uuid="")),)).cards) == 3


def test_cards_that_only_recordings_know() -> None:
    ranks = tuple(recording(pid=pid) for pid in (100, 101))
    (found,) = combined([], "no driver", ranks).cards
    assert (found.index, found.uuid, found.total_bytes) == (None, device().uuid, 140 * GIB)
    assert by_kind(found.parts)["allocated", 101] == 40 * GIB - 6 * GIB  # 80 GiB are in use
    dry = tuple(recording(pid=pid, is_dryrun=True) for pid in (100, 101))
    found_dry = combined([card()], "", dry).cards
    assert [one.is_dryrun for one in found_dry] == [False, True, True]
    assert ("allocated", 100) not in by_kind(found_dry[0].parts)


def test_process_with_two_recordings_counts_once() -> None:
    """As with `memreplay record` and a program that records itself."""
    found = combined([card()], "", (recording(), recording(file="/home/ana/own.pickle")))
    assert found.cards == combined([card()], "", (recording(),)).cards
    assert len(found.recordings) == 2


def test_nothing_to_show_is_an_error() -> None:
    empty = LiveReport(time_us=0, cards=(), cards_missing="NVML: no driver", recordings=())
    with pytest.raises(NothingToTellError, match="NVML: no driver; and no recording"):
        checked(empty)
    assert checked(combined([card()], "", ())).cards
