"""Tests of commands/report/advice_text.py: each recommendation is a sentence that contains its
number.
"""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.oom.result import RemedyName
from memreplay.commands.report.advice_text import (
    TITLES,
    WORDS,
    advice_text,
    advice_title,
    place_text,
)
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.render.reasons import REASONS
from memreplay.snapshot.model import Frame
from tests.conftest import ROOT

MIB = 1 << 20


def device() -> DeviceOverview:
    (found,) = overview(mr.open(ROOT / "tests/data" / "serving_oom.pkl.gz")).devices
    return found


@pytest.mark.parametrize("name", WORDS)
def test_every_text_contains_its_number(name: str) -> None:
    place = Frame("f", "/home/ana/model.py", 72)
    one = Advice(
        name, bytes=3 * MIB, of_bytes=12 * MIB, saved_bytes=3 * MIB, count=1_234, frame=place
    )
    words = advice_text(one, device())
    assert "3.0 MiB" in words or "1,234" in words
    assert "{" not in words
    assert advice_title(one)


@pytest.mark.parametrize("name", ["attention_scores", "loss", "inference_mode", "no_grad"])
def test_line_is_not_credited_with_the_bytes_of_others(name: str) -> None:
    place = Frame("f", "/home/ana/model.py", 72)
    one = Advice(name, bytes=72 * MIB, of_bytes=100 * MIB, frame=place, frame_bytes=30 * MIB)
    held = "hold 72.0 MiB (72.0% of the peak)"
    assert f"{held}, 30.0 MiB at model.py:72" in advice_text(one, device())
    whole = replace(one, frame_bytes=72 * MIB)
    assert f"{held} at model.py:72" in advice_text(whole, device())


@pytest.mark.parametrize("name", get_args(RemedyName))
def test_titles_of_remedies_are_words(name: str) -> None:
    title = advice_title(Advice(f"oom_{name}", word=name, command="oom"))
    of_pytorch = {"empty_cache", "no_grad", "inference_mode"}
    assert title == name if name in of_pytorch else "_" not in title


def test_titles_belong_to_existing_advice() -> None:
    others = {"record", "expandable_segments_no"}
    assert {name for name in TITLES if not name.startswith("oom_")} <= {*WORDS, *others}


def test_recording_that_kept_one_event_needs_a_larger_ring_buffer() -> None:
    """The program did record, so advice to start recording would be useless."""
    lost = replace(device(), reasons=("no_allocations", "ring_overflow_likely"))
    words = advice_text(Advice("record", word="no_allocations"), lost)
    assert words.startswith("call torch.cuda.memory._record_memory_history(max_entries=")
    assert "keep only the last event" in words


@pytest.mark.parametrize("reason", REASONS)
def test_advice_on_a_reason_is_its_remedy(reason: str) -> None:
    words = advice_text(Advice("record", word=reason), device())
    assert words == (REASONS[reason].remedy or reason)


def test_unknown_reason_is_shown_as_is() -> None:
    assert advice_text(Advice("record", word="new_doubt"), device()) == "new_doubt"


@pytest.mark.parametrize(
    "change, word, words",
    [
        (-MIB, "", "it reserves 1.0 MiB more"),
        (MIB, "", "it reserves only 1.0 MiB less"),
        (0, "", "it reserves as much"),
        (0, "fails", "the program runs out of memory"),
    ],
)
def test_text_says_that_a_setting_does_not_help(change: int, word: str, words: str) -> None:
    one = Advice("expandable_segments_no", bytes=change, of_bytes=12 * MIB, word=word)
    said = advice_text(one, device())
    assert said.startswith("peak reserved is 12.0 MiB above peak active, but expandable_segments")
    helps = "hardly helps" if change > 0 else "doesn't help"
    assert said.endswith(f"{helps}: in simulation, {words}")


def test_remedies_match_the_oom_command() -> None:
    found = device()
    words = {one.name: one.text for one in found.advice}
    assert words["oom_expandable_segments"] == (
        "expandable_segments doesn't help: in simulation, this request still fails"
    )
    assert words["oom_less_live"].startswith(
        "Free 128.0 MiB more and this request fits. The largest holder has 300.0 MiB active"
    )
    assert found.oom is not None
    first = replace(found.oom.ooms[0], missing_bytes=1 << 40)
    hopeless = replace(found, oom=replace(found.oom, ooms=(first,)))
    said = advice_text(Advice("oom_less_live", word="less_live"), hopeless)
    assert said.endswith("isn't enough: 1.0 TiB more is missing. Request less")
    assert advice_text(Advice("oom_x", word="x"), replace(found, oom=None)) == "x"


@pytest.mark.parametrize(
    "frame, words",
    [
        (Frame("f", "/a/b.py", 3), "b.py:3"),
        (Frame("f", "C:\\a\\b.py", 3), "b.py:3"),
        (Frame("f", "", 0), "f"),
        (Frame("", "", 0), "?"),
    ],
)
def test_call_site_is_shortened(frame: Frame, words: str) -> None:
    assert place_text(frame) == words
