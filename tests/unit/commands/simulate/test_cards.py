"""Tests of commands/simulate/cards.py."""

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
from tests.allocator import GIB, MIB
from tests.unit.analysis.simulating.programs import least_of, mixed, scattered

EXPANDABLE = "expandable_segments:True"


def opened(capacity: int = 80 * GIB) -> mr.Snapshot:
    return mr.open(build.dump(scattered(capacity)))


def device(snap: mr.Snapshot, **options: Any) -> Any:
    """What a simulation says of the only device."""
    (one,) = simulate_report(snap, smallest=True, **options).devices
    return one


def test_what_is_needed() -> None:
    snap = opened()
    one = device(snap)
    assert (one.device, one.first_event, one.events) == (0, 0, 100)
    assert (one.settings, one.recorded_settings, one.cards) == ("", "", ())
    assert (one.need.settings, one.need.total_bytes) == ("", 290 * MIB)
    assert one.least.total_bytes == 200 * MIB
    assert EXPANDABLE in one.least.settings
    assert (one.exactness, one.trusted, one.reasons) == ("exact", True, ())


@pytest.mark.parametrize("text", ["", EXPANDABLE, "max_split_size_mb:20"])
def test_it_is_what_is_found_of_the_replay(text: str) -> None:
    snap = mr.open(build.dump(mixed(4)))
    replay = snap.replay()
    start = changed_settings(replay.settings, text)
    one = device(snap, settings=text)
    assert one.settings == one.need.settings == text
    assert one.need.total_bytes == smallest(replay, start).total_bytes
    least = least_of(replay, start)
    assert (one.least.settings, one.least.total_bytes) == (
        spelled(least.settings),
        least.total_bytes,
    )


def test_cards_in_their_order() -> None:
    totals = (271 * MIB, 290 * MIB, 288 * MIB, 199 * MIB, GIB)
    one = device(opened(), program_memory=totals)
    assert tuple(card.total_bytes for card in one.cards) == totals
    assert [card.fits for card in one.cards] == [False, True, False, False, True]
    for card in one.cards:
        assert (card.failed is None) == (card.stopped_event is None) == card.fits
        assert (card.simulated.ooms == 0) == card.fits
        # Of those that fit nobody asks for others; of the smallest there are none.
        assert bool(card.others) == (card.total_bytes in (271 * MIB, 288 * MIB))
    assert EXPANDABLE in one.cards[0].others[0]
    assert one.cards[0].failed is not None
    assert one.cards[0].failed.request_bytes == 18 * MIB


def test_other_settings_are_those_that_fit() -> None:
    snap = opened()
    one = device(snap, program_memory=(250 * MIB,))
    replay = snap.replay()
    for text in one.cards[0].others:
        assert replay.simulate(text, total_bytes=250 * MIB).fits


def test_what_failed_in_the_recording_has_to_succeed() -> None:
    one = device(opened(240 * MIB), program_memory=(240 * MIB,))
    # Two of five were served; nobody has what the others get for longer than the request.
    assert one.need.total_bytes == (200 + 3 * 18) * MIB
    assert (one.cards[0].fits, one.cards[0].simulated.ooms) == (False, 3)
    # It ended there as it did in the recording.
    assert one.cards[0].stopped_event is None
    assert one.cards[0].failed is not None
    assert (one.exactness, one.reasons) == ("estimated", ("request_succeeds",))


def test_what_was_there_before_is_needed() -> None:
    snap = mr.open(build.dump(scattered()), start=60)
    one = device(snap, program_memory=(198 * MIB,))
    assert one.need.total_bytes == 290 * MIB
    assert one.reasons == ("began_with_memory", "start_too_large")
    (card,) = one.cards
    assert not card.fits


def test_what_is_no_device_and_no_setting() -> None:
    with pytest.raises(mr.UsageError, match="no device 1"):
        simulate_report(opened(), device=1)
    with pytest.raises(mr.UsageError, match="there is no allocator setting"):
        simulate_report(opened(), settings="a:b")


def test_without_events_no_card_is_judged() -> None:
    """A gate that passes on nothing is none."""
    snap = mr.open(build.dump({"segments": [], "device_traces": []}))
    assert simulate_report(snap, smallest=True).devices == ()
    with pytest.raises(mr.NothingToTellError, match="no events"):
        simulate_report(snap, program_memory=(GIB,))


@pytest.mark.parametrize("bytes_", [250 * MIB, 290 * MIB, 300 * MIB, GIB])
def test_totals_are_what_the_program_has_and_cards_have_a_context_too(bytes_: int) -> None:
    snap = opened()
    context = context_bytes(bytes_)
    asked = (bytes_, bytes_ - context)
    one = device(snap, program_memory=asked, total_memory=(bytes_,))
    total, less, card = one.cards
    assert (total.total_bytes, total.context_bytes) == (bytes_, UNSET)
    assert (card.total_bytes, card.context_bytes) == (bytes_, context)
    assert total.fits == (one.need.total_bytes <= bytes_)
    # A card is as good as what it leaves for the program.
    assert (card.fits, card.failed, card.simulated) == (less.fits, less.failed, less.simulated)
    for fit, usable in ((total, bytes_), (card, bytes_ - context)):
        (simulated,) = mr.simulate(snap, program_memory=(usable,)).devices
        assert fit.fits == (simulated.failed is None)
        assert fit.simulated == simulated.simulated


def test_a_card_that_is_named_twice_counts_once() -> None:
    one = device(opened(), program_memory=(GIB, GIB))
    assert [card.total_bytes for card in one.cards] == [GIB]


def test_what_is_an_estimate_is_said_of_each() -> None:
    """A part of the card: of what nobody knows."""
    settings = "per_process_memory_fraction:0.5"
    one = device(opened(), program_memory=(GIB,), settings=settings)
    assert (one.need.exactness, one.cards[0].exactness, one.exactness) == ("estimated",) * 3
    assert one.reasons == ("card_inferred",)


def test_what_it_needs_is_said_where_it_is_asked() -> None:
    """It takes some hundred simulations, and one card takes one."""
    (one,) = simulate_report(opened(), program_memory=(GIB,)).devices
    assert (one.need, one.least) == (UNSET, UNSET)
    assert isinstance(one.cards, tuple)
    (one,) = simulate_report(opened()).devices
    assert (one.need, one.least, one.cards) == (UNSET, UNSET, UNSET)


def test_a_changed_program_is_judged_on_cards() -> None:
    half = mr.Change(factor=0.5)
    (one,) = simulate_report(opened(), program_memory=(150 * MIB,), change=half).devices
    assert isinstance(one.cards, tuple)
    assert [card.fits for card in one.cards] == [one.failed is None]
    (whole,) = simulate_report(opened(), program_memory=(150 * MIB,)).devices
    assert isinstance(whole.cards, tuple)
    assert not whole.cards[0].fits
