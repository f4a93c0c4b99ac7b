"""All commands, the page and the explorer describe trust in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.app import app
from memreplay.explore.describing import Describer
from memreplay.explore.explored import Explored
from memreplay.export.page.building import page_data
from memreplay.render.trust import label_of, trust_text
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.build import Snapshot, SnapshotBuilder

CODE = (("train", "train.py", 5),)


def recorded(max_entries: int | None = None) -> Snapshot:
    machine = Machine()
    machine.begin_recording()
    device = machine.devices[0]
    device.malloc(30 * MIB, stack=CODE)
    for _ in range(400):
        block = device.malloc(4000, stack=CODE)
        assert block is not None
        device.free(block)
    return machine.dump(max_entries)[0]


def noted() -> Snapshot:
    return recorded(1000) | {"memreplay": {"max_entries": 1000, "dropped_events": [203]}}


def state() -> Snapshot:
    made = SnapshotBuilder()
    made.segment(1 << 30, 2 * MIB, blocks=[made.block(1 << 30, 2 * MIB)])
    return made.build()


def contradictory() -> Snapshot:
    return SnapshotBuilder().alloc(1, 9).free(1, 9).free_completed(1, 9).finish_segments().build()


SNAPSHOTS: dict[str, tuple[Callable[[], Snapshot], str]] = {
    "whole": (recorded, "exact"),
    "ring": (lambda: recorded(1000), "exact for the last 1,000 events"),
    "noted": (noted, "exact for the last 1,000 events"),
    "state": (state, "exact for the final state"),
    "contradictory": (contradictory, "not trustworthy"),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_all_commands_use_the_same_words(name: str, tmp_path: Path) -> None:
    make, label = SNAPSHOTS[name]
    file = tmp_path / "snap.pickle"
    file.write_bytes(build.dump(make()))
    snap = mr.open(file)
    found = verdict(snap, snap.replay(0).measure())
    events = snap.trace_events(0)
    assert label_of(found.exactness, found.reasons, events) == label
    sentence = trust_text(found, events)
    assert sentence.lower().startswith(label)

    def text(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "300"})
        assert done.exit_code == 0, (arguments, done.output)
        return " ".join(done.stdout.split())

    report = text("report", str(file))
    assert f", {label} trust {sentence}" in report
    for command in ("peak", "at", "timeline", "allocations"):
        more = ["peak"] if command == "at" else []
        said = text(command, str(file), *more)
        if command in ("timeline", "allocations") and not events:
            assert "device 0: no events were recorded" in said
        else:
            assert f"measure requested, {label} " in said, command
    summary = text("summary", str(file))
    assert f", {label}" in summary or "only the final state is known" in summary
    # The page gets these words from its data, and uses no others.
    page, _ = page_data(snap)
    assert page.devices[0].trust["requested"].text == sentence
    assert page.devices[0].trust["requested"].warning is (label != "exact")
    explored = Explored(snap)
    head = Describer(explored).head(explored.first_look(0), "snap.pickle", 300)
    assert f"requested, {label}" in head
