"""Tests of commands/report/advice_words.py: each piece of advice is a sentence with its number."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.report.advice_words import (
    TITLES,
    WORDS,
    advice_title,
    advice_words,
    place_words,
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
def test_each_says_its_number(name: str) -> None:
    place = Frame("f", "/home/ana/model.py", 72)
    one = Advice(
        name, bytes=3 * MIB, of_bytes=12 * MIB, saved_bytes=3 * MIB, count=1_234, frame=place
    )
    words = advice_words(one, device())
    assert "3.0 MiB" in words or "1,234" in words
    assert "{" not in words
    assert advice_title(one)


def test_titles_are_of_advice_that_there_is() -> None:
    others = {"record", "expandable_segments_no"}
    assert {name for name in TITLES if not name.startswith("oom_")} <= {*WORDS, *others}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_say_their_remedy(reason: str) -> None:
    words = advice_words(Advice("record", word=reason), device())
    assert words == (REASONS[reason].remedy or reason)


def test_a_reason_that_is_not_known() -> None:
    assert advice_words(Advice("record", word="new_doubt"), device()) == "new_doubt"


@pytest.mark.parametrize(
    "change, word, words",
    [
        (-MIB, "", "it reserves 1.0 MiB more"),
        (MIB, "", "it reserves only 1.0 MiB less"),
        (0, "", "it reserves as much"),
        (0, "fails", "the program runs out of memory"),
    ],
)
def test_a_setting_that_brings_nothing(change: int, word: str, words: str) -> None:
    one = Advice("expandable_segments_no", bytes=change, of_bytes=12 * MIB, word=word)
    said = advice_words(one, device())
    assert said.startswith("12.0 MiB of the reserved memory was never needed, but expandable_seg")
    helps = "hardly helps" if change > 0 else "doesn't help"
    assert said.endswith(f"{helps}: as simulated, {words}")


def test_remedies_speak_as_oom_does() -> None:
    found = device()
    words = {one.name: one.text for one in found.advice}
    assert words["oom_expandable_segments"] == (
        "expandable_segments doesn't help: as simulated, this request still fails"
    )
    assert words["oom_less_live"].startswith(
        "Free 128.0 MiB more and this request fits. The largest holder has 300.0 MiB"
    )
    assert found.oom is not None
    first = replace(found.oom.ooms[0], missing_bytes=1 << 40)
    hopeless = replace(found, oom=replace(found.oom, ooms=(first,)))
    said = advice_words(Advice("oom_less_live", word="less_live"), hopeless)
    assert said.endswith("isn't enough: 1.0 TiB more is missing. Ask for less")
    assert advice_words(Advice("oom_x", word="x"), replace(found, oom=None)) == "x"


@pytest.mark.parametrize(
    "frame, words",
    [
        (Frame("f", "/a/b.py", 3), "b.py:3"),
        (Frame("f", "C:\\a\\b.py", 3), "b.py:3"),
        (Frame("f", "", 0), "f"),
        (Frame("", "", 0), "?"),
    ],
)
def test_places(frame: Frame, words: str) -> None:
    assert place_words(frame) == words
