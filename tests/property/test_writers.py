"""Replace each value in a snapshot in turn with None or another type, or remove it. Every snapshot
that can still be read can be written in every form and read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import memreplay as mr
from memreplay.export.snapshots.cutting import cut
from tests import build
from tests.fuzz.check import look_up
from tests.fuzz.plain import GONE, with_other
from tests.fuzz.seeds import recording
from tests.fuzz.writers import FORMS, dataset_of, lines_of, other_form_of, slice_of

OTHERS: tuple[Any, ...] = (
    None,
    GONE,
    "",
    "word",
    1,
    -1,
    1.5,
    True,
    [],
    {},
    (),
    (1, 2),
    b"x",
    2**70,
)
Path = tuple[Any, ...]


def snapshot() -> Any:
    return recording(
        3, user_metadata={"step": [1, {"a": ("b", 2)}]}, compile_context="0/0", fx=True
    )


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Return the path of each value, but use only the first two items of a list."""
    if at:
        yield at
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*at, key))
    elif isinstance(value, (list, tuple)):
        for i in range(min(len(value), 2)):
            yield from paths(value[i], (*at, i))


def written(data: bytes, number: int) -> bool:
    """Write the snapshot in every form if it can be read; return whether it could."""
    try:
        snap = mr.open(data)
        _ = snap.settings
        for device in snap.devices:
            snap.replay(device)
    except mr.SnapshotError:
        return False
    look_up(snap)
    lines_of(snap)
    slice_of(snap, number)
    mr.open(b"".join(cut(mr.open(data, start=1, stop=3))[1]))
    other_form_of(data, snap, number % len(FORMS))
    return True


@pytest.mark.parametrize("new", OTHERS, ids=lambda value: "gone" if value is GONE else repr(value))
def test_readable_snapshot_with_any_odd_or_missing_value_can_be_written(new: Any) -> None:
    whole = snapshot()
    found = [
        written(build.dump(with_other(whole, at, new)), number)
        for number, at in enumerate(paths(whole))
    ]
    assert any(found)
    assert len(found) > 100


@pytest.mark.parametrize("new", [None, GONE, ""], ids=["None", "gone", "empty"])
def test_tables_can_be_written_if_any_text_is_odd_or_missing(new: Any) -> None:
    whole = snapshot()
    for number, at in enumerate(paths(whole)):
        if at[-1] not in ("segment_type", "name", "stage", "state", "action", "filename"):
            continue
        snap = mr.open(build.dump(with_other(whole, at, new)))
        dataset_of(snap, number)


@pytest.mark.parametrize("key", ["name", "stage"])
def test_annotation_without_text_is_written_and_read_again(key: str) -> None:
    notes = [{"name": "step", "stage": "START", "device": 0, "time_us": 1} | {key: None}] * 2
    data = build.dump({"segments": [], "device_traces": [], "external_annotations": notes[:1]})
    snap = mr.open(data)
    assert snap.text(int(getattr(snap.annotations, key)[0])) == ""
    again = mr.open(b"".join(cut(snap)[1]))
    assert again.text(int(getattr(again.annotations, key)[0])) == ""


def test_segment_without_type_is_written_and_read_again() -> None:
    segment: dict[str, Any] = {"address": 4096, "total_size": 2 << 20, "segment_type": None}
    segment["blocks"] = []
    snap = mr.open(build.dump({"segments": [segment], "device_traces": []}))
    assert snap.text(int(snap.segments.type[0])) == ""
    again = mr.open(b"".join(cut(snap)[1]))
    assert again.text(int(again.segments.type[0])) == ""
