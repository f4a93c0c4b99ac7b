"""The public interface matches ci/public.txt, and nothing is removed unnoticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import memreplay
from ci import public as maker
from ci import signatures
from ci.schemas import all_schemas


@pytest.fixture(scope="module")
def now() -> list[str]:
    return list(maker.public_lines())


def test_nothing_public_was_removed(now: list[str]) -> None:
    found = list(maker.breaks(maker._lines(maker.LISTED), now))
    assert not found, "\n".join(found)


def test_list_matches_the_public_names(now: list[str]) -> None:
    listed = maker._lines(maker.LISTED)
    assert sorted(set(listed) ^ set(now)) == [], "make public"
    assert listed == now, "make public"


def test_types_match_the_declarations() -> None:
    assert signatures.STUB.read_text(encoding="utf-8") == signatures.stub(), "make public"


def test_list_has_every_kind_of_public_name(now: list[str]) -> None:
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
    assert len(schemas) == len(all_schemas())


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


def test_additions_are_compatible() -> None:
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
        ("name peak function", None, "name peak was removed"),
        ("parameter peak top = 20", None, "parameter peak top was removed"),
        ("parameter peak top = 20", "parameter peak top = 10", "was `= 20`, now `= 10`"),
        ("parameter peak top = 20", "parameter peak top required", "now `required`"),
        ("option peak --by by", None, "option peak --by was removed"),
        ("option peak --by by", "option peak --by flag", "was `by`, now `flag`"),
        (
            "option peak --format one of text|json",
            "option peak --format one of text",
            "was `one of text|json`",
        ),
        ("order peak snap top", "order peak top snap", "was `snap top`, now `top snap`"),
        ("order peak snap top", "order peak snap", "was `snap top`, now `snap`"),
        ("order peak snap top", "order peak snap topmost", "now `snap topmost`"),
        ("order peak snap top", None, "order peak was removed"),
        ("default peak --by = 'stack'", "default peak --by = 'file'", "was `= 'stack'`"),
        ("default peak --by = 'stack'", "default peak --by required", "now `required`"),
        ("default peak --by = 'stack'", None, "default peak --by was removed"),
        ("exit 3 one of SnapshotError", None, "exit 3 was removed"),
        ("key Group.bytes integer", None, "Group.bytes of memreplay.peak/1 was removed: raise the"),
        ("key Group.bytes integer", "key Group.bytes string", "was integer, now string"),
        ("key memreplay.peak/1.file string", None, "file of memreplay.peak/1 was removed"),
        ("schema memreplay.peak/1 Group", None, "memreplay.peak/1 was removed"),
        ("column events/1.device int32", None, "events/1.device was removed"),
    ],
)
def test_removals_are_reported(line: str, becomes: str | None, said: str) -> None:
    at = BEFORE.index(line)
    now = [*BEFORE[:at], *([] if becomes is None else [becomes]), *BEFORE[at + 1 :]]
    (found,) = maker.breaks(BEFORE, now)
    assert said in found


def test_new_required_parameter_is_reported() -> None:
    (found,) = maker.breaks(BEFORE, [*BEFORE, "parameter peak by required"])
    assert found == "parameter peak by is new, and required: give it a default"


def test_new_required_option_is_reported() -> None:
    (found,) = maker.breaks(BEFORE, [*BEFORE, "default peak --device required"])
    assert found == "peak --device is now required"


def test_keys_may_change_with_a_new_schema_number() -> None:
    now = [line.replace("peak/1", "peak/2") for line in BEFORE if "Group.bytes" not in line]
    assert list(maker.breaks(BEFORE, now)) == []
    lower = [line.replace("peak/1", "peak/0") for line in BEFORE]
    assert list(maker.breaks(BEFORE, lower)) == [
        "schema memreplay.peak/1 was removed without a higher number"
    ]


def test_list_is_not_written_after_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "public.txt"
    path.write_text("".join(f"{line}\n" for line in BEFORE), encoding="utf-8")
    monkeypatch.setattr(maker, "LISTED", path)
    monkeypatch.setattr(maker, "public_lines", lambda: iter(BEFORE[1:]))
    for arguments, code, says in (
        ([], 1, "name peak was removed"),
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
