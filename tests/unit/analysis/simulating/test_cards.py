"""Tests of analysis/simulating/cards.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

import memreplay as mr
from memreplay.analysis.simulating.fitting import smallest
from memreplay.commands.simulate.find import simulate_report
from memreplay.snapshot.alloc_conf import changed_settings, spelled
from memreplay.snapshot.cards import context_bytes
from tests import build
from tests.allocator_blocks import GIB, MIB
from tests.unit.analysis.simulating.programs import least_of, mixed, scattered

EXPANDABLE = "expandable_segments:True"


def opened(capacity: int = 80 * GIB) -> mr.Snapshot:
    return mr.open(build.dump(scattered(capacity)))


def device(snap: mr.Snapshot, **options: Any) -> Any:
    """Return the simulation's result for the only device."""
    (one,) = simulate_report(snap, search="card", **options).devices
    return one


def test_needed_memory_is_reported() -> None:
    snap = opened()
    one = device(snap)
    assert (one.device, one.first_event, one.events) == (0, 0, 100)
    assert (one.settings, one.recorded_settings, one.cards) == ("", "", ())
    assert (one.need.settings, one.need.program_memory_bytes) == ("", 290 * MIB)
    assert one.least.program_memory_bytes == 200 * MIB
    assert EXPANDABLE in one.least.settings
    assert (one.exactness, one.trusted, one.reasons) == ("exact", True, ())


@pytest.mark.parametrize("text", ["", EXPANDABLE, "max_split_size_mb:20"])
def test_matches_the_replay(text: str) -> None:
    snap = mr.open(build.dump(mixed(4)))
    replay = snap.replay()
    start = changed_settings(replay.settings, text)
    one = device(snap, set=text)
    assert one.settings == one.need.settings == text
    assert one.need.program_memory_bytes == smallest(replay, start).program_memory_bytes
    least = least_of(replay, start)
    assert (one.least.settings, one.least.program_memory_bytes) == (
        spelled(least.settings),
        least.program_memory_bytes,
    )


def test_cards_stay_in_order() -> None:
    totals = (271 * MIB, 290 * MIB, 288 * MIB, 199 * MIB, GIB)
    one = device(opened(), program_memory=totals)
    assert tuple(card.total_memory_bytes for card in one.cards) == totals
    assert [card.fits for card in one.cards] == [False, True, False, False, True]
    for card in one.cards:
        assert (card.failed is None) == (card.stopped_event is None) == card.fits
        assert (card.simulated.oom_count == 0) == card.fits
        # Cards that are too small are tried with other settings, but none help on the smallest.
        assert bool(card.others) == (card.total_memory_bytes in (271 * MIB, 288 * MIB))
    assert EXPANDABLE in one.cards[0].others[0]
    assert one.cards[0].failed is not None
    assert one.cards[0].failed.request_bytes == 18 * MIB


def test_suggested_settings_fit() -> None:
    snap = opened()
    one = device(snap, program_memory=(250 * MIB,))
    replay = snap.replay()
    for text in one.cards[0].others:
        assert replay.simulate(text, program_memory=250 * MIB).fits


def test_failed_requests_must_succeed() -> None:
    one = device(opened(240 * MIB), program_memory=(240 * MIB,))
    # Two of the five requests succeeded, and the other three come after the failed one.
    assert one.need.program_memory_bytes == (200 + 3 * 18) * MIB
    assert (one.cards[0].fits, one.cards[0].simulated.oom_count) == (False, 3)
    # The simulation goes on after the failure, like the recording.
    assert one.cards[0].stopped_event is None
    assert one.cards[0].failed is not None
    assert (one.exactness, one.reasons) == ("estimated", ("request_succeeds",))


def test_carried_over_memory_is_needed() -> None:
    snap = mr.open(build.dump(scattered()), start=60)
    one = device(snap, program_memory=(198 * MIB,))
    assert one.need.program_memory_bytes == 290 * MIB
    assert one.reasons == ("began_with_memory", "start_too_large")
    (card,) = one.cards
    assert not card.fits


def test_invalid_devices_and_settings_are_rejected() -> None:
    with pytest.raises(mr.UsageError, match="no device 1"):
        simulate_report(opened(), device=1)
    with pytest.raises(mr.UsageError, match="no allocator setting"):
        simulate_report(opened(), set="a:b")


def test_no_card_is_judged_without_events() -> None:
    """A gate that passes without judging anything would be useless."""
    snap = mr.open(build.dump({"segments": [], "device_traces": []}))
    assert simulate_report(snap, search="card").devices == ()
    with pytest.raises(mr.NothingToTellError, match="no events"):
        simulate_report(snap, program_memory=(GIB,))


@pytest.mark.parametrize("bytes_", [250 * MIB, 290 * MIB, 300 * MIB, GIB])
def test_cards_include_a_cuda_context(bytes_: int) -> None:
    snap = opened()
    context = context_bytes(bytes_)
    asked = (bytes_, bytes_ - context)
    one = device(snap, program_memory=asked, total_memory=(bytes_,))
    total, less, card = one.cards
    assert (total.total_memory_bytes, total.context_bytes) == (bytes_, UNSET)
    assert (card.total_memory_bytes, card.context_bytes) == (bytes_, context)
    assert total.fits == (one.need.program_memory_bytes <= bytes_)
    # A card is large enough if the memory left for the program suffices.
    assert (card.fits, card.failed, card.simulated) == (less.fits, less.failed, less.simulated)
    for fit, usable in ((total, bytes_), (card, bytes_ - context)):
        (simulated,) = mr.simulate(snap, program_memory=(usable,)).devices
        assert fit.fits == (simulated.failed is None)
        assert fit.simulated == simulated.simulated


def test_duplicate_card_is_listed_once() -> None:
    one = device(opened(), program_memory=(GIB, GIB))
    assert [card.total_memory_bytes for card in one.cards] == [GIB]


def test_every_estimate_is_marked() -> None:
    """The limit is a fraction of a card of unknown size."""
    settings = "per_process_memory_fraction:0.5"
    one = device(opened(), program_memory=(GIB,), set=settings)
    assert (one.need.exactness, one.cards[0].exactness, one.exactness) == ("estimated",) * 3
    assert one.reasons == ("card_inferred",)


def test_memory_needed_is_reported_on_request() -> None:
    """Finding it takes several hundred simulations, but checking a card takes only one."""
    (one,) = simulate_report(opened(), program_memory=(GIB,)).devices
    assert (one.need, one.least) == (UNSET, UNSET)
    assert one.cards is not UNSET
    (one,) = simulate_report(opened()).devices
    assert (one.need, one.least, one.cards) == (UNSET, UNSET, UNSET)


def test_changed_program_is_judged_on_cards() -> None:
    (one,) = simulate_report(opened(), program_memory=(150 * MIB,), scale=0.5).devices
    assert one.cards is not UNSET
    assert [card.fits for card in one.cards] == [one.failed is None]
    (whole,) = simulate_report(opened(), program_memory=(150 * MIB,)).devices
    assert whole.cards is not UNSET
    assert not whole.cards[0].fits
