"""Tests of commands/view/extras.py: failed requests and cards match `memreplay oom`."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.oom.result import Oom
from memreplay.commands.oom.text import cause_name, cause_text, remedy_text, remedy_title
from memreplay.commands.view import extras as module
from memreplay.commands.view.extras import extras_of
from memreplay.commands.view.find import one_page, snapshot_data
from memreplay.commands.view.options import Given
from memreplay.errors import UsageError
from memreplay.export.page.records import PageDevice, PageFailure
from memreplay.render.units import size
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT

SERVING = ROOT / "examples/serving_oom.pkl.gz"
GIB = 1 << 30


def device_of(snap: mr.Snapshot, **given: Any) -> PageDevice:
    page, _ = one_page(snap, given=Given(**given))
    return page.snapshots[0].devices[0]


def check(found: PageFailure, oom: Oom, first_event: int) -> None:
    assert found.moment == oom.event_index - first_event + 1
    assert (found.cause, found.text) == (cause_name(oom.cause), cause_text(oom))
    assert found.cached_bytes == oom.cached_bytes


def test_failures_match_the_oom_command() -> None:
    snap = mr.open(SERVING)
    (told,) = mr.oom(snap, oom=0).devices
    found = device_of(snap).ooms
    assert len(found) == len(told.ooms) == 2
    for one, oom in zip(found, told.ooms, strict=True):
        check(one, oom, snap.replay().first_event)
    assert found[0].asked_by == "model.py:21"
    # Only the first one is simulated, as in `memreplay report`.
    assert found[0].remedies == tuple(
        (remedy_title(one.name), remedy_text(one, told.ooms[0])) for one in told.ooms[0].remedies
    )
    assert found[1].remedies == ()


def test_failures_of_a_range_count_from_its_first_event() -> None:
    snap = mr.open(SERVING, start=16_990)
    (told,) = mr.oom(snap).devices
    (found,) = device_of(snap).ooms
    check(found, told.ooms[0], 16_990)


def test_ranks_have_causes_but_no_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    snap = mr.open(SERVING)
    monkeypatch.setattr(module, "MOST", 1)
    data, _ = snapshot_data(snap, report=False)
    (found,) = data.devices[0].ooms
    check(found, mr.oom(snap).devices[0].ooms[0], 0)
    assert found.remedies == ()


def test_card_is_what_oom_says() -> None:
    snap = mr.open(SERVING)
    (told,) = mr.oom(snap).devices
    card = device_of(snap).card
    assert card is not None
    assert (card.bytes, card.known) == (told.total_memory_bytes, False)
    assert card.text == "card of at least 716.9 MiB"
    card = device_of(snap, total_memory=GIB).card
    (told,) = mr.oom(snap, total_memory=GIB).devices
    assert card is not None
    assert (card.bytes, card.known) == (GIB, True)
    outside = size(told.ooms[0].outside_bytes)
    assert card.text == f"card of 1.0 GiB, {outside} used outside PyTorch when a request failed"
    with pytest.raises(UsageError, match="--total-memory is below"):
        device_of(snap, total_memory=1 << 20)


def test_card_from_the_recorder_or_none() -> None:
    made = SnapshotBuilder().alloc(0x1000, 64)
    snap = mr.open(build.dump(made.build()))
    assert device_of(snap).card is None
    assert extras_of(snap, None, None)[0].ooms == ()
    snap = mr.open(ROOT / "examples/recorded_gpt.pkl.gz")
    card = device_of(snap).card
    assert card is not None
    assert (card.bytes, card.known, card.text) == (snap.card_bytes(0), True, "card of 22.0 GiB")
