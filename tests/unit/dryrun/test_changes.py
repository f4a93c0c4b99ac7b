"""Tests of dryrun/changes.py."""

from __future__ import annotations

import json

import pytest

from memreplay.dryrun.changes import CHANGES, Change, as_environment, is_change, parse_change
from memreplay.errors import UsageError
from memreplay.programs.inside import memreplay_changing


def test_every_change_can_be_made() -> None:
    assert list(memreplay_changing.CHANGES) == list(CHANGES)


@pytest.mark.parametrize(
    "text, change",
    [
        ("checkpoint=h.*", Change("checkpoint", "h.*")),
        ("checkpoint = h.*[::2] , Block", Change("checkpoint", "h.*[::2],Block")),
        ("checkpoint=a=b", Change("checkpoint", "a=b")),
        ("foreach=off", Change("foreach", "off")),
        ("fused=on", Change("fused", "on")),
        ("set-to-none", Change("set-to-none", "on")),
        ("autocast-cache=off", Change("autocast-cache", "off")),
    ],
)
def test_changes_have_a_name_and_a_value(text: str, change: Change) -> None:
    assert parse_change(text) == change
    assert parse_change(change.text) == change
    assert is_change(text)


@pytest.mark.parametrize(
    "text, words",
    [
        ("no=1", "there is no such change; these exist: checkpoint, foreach, fused"),
        ("", "there is no such change"),
        ("checkpoint", "needs names of modules, such as checkpoint=layers"),
        ("checkpoint=a,,b", "needs names of modules"),
        ("foreach", "the value must be off$"),
        ("foreach=on", "the value must be off$"),
        ("set-to-none=off", "the value must be on$"),
    ],
)
def test_other_changes_are_rejected(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_change(text)


def test_processes_get_json() -> None:
    changes = (Change("checkpoint", "h.*,i"), Change("fused", "on"))
    assert json.loads(as_environment(changes)) == [["checkpoint", "h.*,i"], ["fused", "on"]]
    assert not is_change("expandable_segments:True")
