"""What users build on is as ci/public.txt lists it, and nothing goes without notice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import memreplay
from ci import public as maker
from ci.schemas import made


@pytest.fixture(scope="module")
def now() -> list[str]:
    return list(maker.made())


def test_nothing_that_users_build_on_is_gone(now: list[str]) -> None:
    found = list(maker.breaks(maker._lines(maker.LISTED), now))
    assert not found, "\n".join(found)


def test_what_is_listed_is_what_there_is(now: list[str]) -> None:
    listed = maker._lines(maker.LISTED)
    assert sorted(set(listed) ^ set(now)) == [], "make public"
    assert listed == now, "make public"


def test_it_lists_what_there_is(now: list[str]) -> None:
    assert len(now) == len(set(now))
    lines = set(now)
    for name in memreplay.__all__:
        assert name == "__version__" or any(line.startswith(f"name {name} ") for line in lines)
    for one in (
        "parameter peak snap required",
        "parameter Selection top = 20",
        "name Snapshot.events attribute",
        "parameter Replay.live_at event = None",
        "option peak --measure one of requested|held|active|allocated|reserved",
        "option peak -n integer",
        "option peak FILE path",
        "order peak snap selection options",
        "default peak --measure = 'requested'",
        "default peak FILE required",
        "exit 4 one of TruncatedError",
        "key DevicePeak.peak_bytes integer",
        "column events/1.device int32",
    ):
        assert one in lines
    assert not any("--only-baseline" in line for line in lines)
    schemas = {line.split()[1] for line in lines if line.startswith("schema ")}
    assert {"memreplay.peak/1", "memreplay.baseline/1"} < schemas
    assert len(schemas) == len(made())


BEFORE = [
    "name peak function",
    "parameter peak snap required",
    "parameter peak top = 20",
    "order peak snap top",
    "name memreplay:peak command",
    "option peak --by by",
    "default peak --by = 'stack'",
    "option peak --format one of text|json",
    "exit 3 one of SnapshotError",
    "schema memreplay.peak/1 Group",
    "key memreplay.peak/1.file string",
    "key Group.bytes integer",
    "column events/1.device int32",
]


def test_what_is_added_breaks_nothing() -> None:
    more = [
        *BEFORE,
        "parameter peak by = None",
        "name memreplay:steps command",
        "default steps FILE required",
        "option peak --all flag",
        "key Group.count integer",
        "column events/1.new int32",
        "name steps function",
        "parameter steps snap required",
    ]
    assert list(maker.breaks(BEFORE, more)) == []
    wider = [line.replace("text|json", "json|markdown|text") for line in BEFORE]
    wider = [line.replace("snap required", "snap = None") for line in wider]
    wider = [line.replace("snap top", "snap top by") for line in wider]
    assert list(maker.breaks([*BEFORE, "default peak FILE required"], wider)) == []
    assert list(maker.breaks(BEFORE, wider)) == []


@pytest.mark.parametrize(
    "line, becomes, said",
    [
        ("name peak function", None, "name peak is gone"),
        ("parameter peak top = 20", None, "parameter peak top is gone"),
        ("parameter peak top = 20", "parameter peak top = 10", "was `= 20`, and is `= 10`"),
        ("parameter peak top = 20", "parameter peak top required", "is `required`"),
        ("option peak --by by", None, "option peak --by is gone"),
        ("option peak --by by", "option peak --by flag", "was `by`, and is `flag`"),
        (
            "option peak --format one of text|json",
            "option peak --format one of text",
            "was `one of text|json`",
        ),
        ("order peak snap top", "order peak top snap", "was `snap top`, and is `top snap`"),
        ("order peak snap top", "order peak snap", "was `snap top`, and is `snap`"),
        ("order peak snap top", "order peak snap topmost", "and is `snap topmost`"),
        ("order peak snap top", None, "order peak is gone"),
        ("default peak --by = 'stack'", "default peak --by = 'file'", "was `= 'stack'`"),
        ("default peak --by = 'stack'", "default peak --by required", "is `required`"),
        ("default peak --by = 'stack'", None, "default peak --by is gone"),
        ("exit 3 one of SnapshotError", None, "exit 3 is gone"),
        ("key Group.bytes integer", None, "Group.bytes of memreplay.peak/1 is gone: give the"),
        ("key Group.bytes integer", "key Group.bytes string", "was integer, and is string"),
        ("key memreplay.peak/1.file string", None, "file of memreplay.peak/1 is gone"),
        ("schema memreplay.peak/1 Group", None, "memreplay.peak/1 is gone"),
        ("column events/1.device int32", None, "events/1.device is gone"),
    ],
)
def test_what_goes_is_told(line: str, becomes: str | None, said: str) -> None:
    at = BEFORE.index(line)
    now = [*BEFORE[:at], *([] if becomes is None else [becomes]), *BEFORE[at + 1 :]]
    (found,) = maker.breaks(BEFORE, now)
    assert said in found


def test_a_parameter_that_must_be_given_is_told() -> None:
    (found,) = maker.breaks(BEFORE, [*BEFORE, "parameter peak by required"])
    assert found == "parameter peak by is new, and required: give it a default"


def test_an_option_that_must_be_given_is_told() -> None:
    (found,) = maker.breaks(BEFORE, [*BEFORE, "default peak --device required"])
    assert found == "peak --device was not required, and is"


def test_a_new_number_may_change_keys() -> None:
    now = [line.replace("peak/1", "peak/2") for line in BEFORE if "Group.bytes" not in line]
    assert list(maker.breaks(BEFORE, now)) == []
    lower = [line.replace("peak/1", "peak/0") for line in BEFORE]
    assert list(maker.breaks(BEFORE, lower)) == [
        "schema memreplay.peak/1 is gone, and no higher number is there"
    ]


def test_it_is_not_written_where_something_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "public.txt"
    path.write_text("".join(f"{line}\n" for line in BEFORE), encoding="utf-8")
    monkeypatch.setattr(maker, "LISTED", path)
    monkeypatch.setattr(maker, "made", lambda: iter(BEFORE[1:]))
    for arguments, code, says in (
        ([], 1, "name peak is gone"),
        (["--check"], 1, "- name peak function"),
        (["--drop"], 0, ""),
        ([], 0, ""),
        (["--check"], 0, ""),
    ):
        monkeypatch.setattr(sys, "argv", ["public.py", *arguments])
        assert maker.main() == code
        assert says in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == maker.HEAD + "".join(
        f"{one}\n" for one in BEFORE[1:]
    )
