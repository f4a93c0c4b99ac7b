"""Fixtures: a folder of snapshots, and tool calls as the server makes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from memreplay.analysis.categories.rules import rules_of
from memreplay.commands.shared.source import Reading
from memreplay.mcp.allowed import Allowed
from memreplay.mcp.cache import Kept
from memreplay.mcp.calls import ToolCall
from memreplay.mcp.hosts import Hosts
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.commands.conftest import neutral_environment, runner

__all__ = ["neutral_environment", "runner"]

LEAKY, OOM = "leaky_training.pkl.gz", "serving_oom.pkl.gz"
Asks = Callable[..., ToolCall]


def snapshot(events: int = 1) -> bytes:
    """Return a small snapshot with this many allocations."""
    builder = SnapshotBuilder()
    for i in range(events):
        builder.alloc(0x1000 * (i + 1), 512 * (i + 1), frames=[("train", "/home/a/train.py", 7)])
    return build.dump(builder.build())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder with a small snapshot, two real ones, and another file."""
    found = tmp_path / "dumps"
    (found / "run").mkdir(parents=True)
    (found / "small.pkl").write_bytes(snapshot())
    for name in (LEAKY, OOM):
        shutil.copy(ROOT / "examples" / name, found / "run" / name)
    (found / "notes.txt").write_text("nothing")
    return found


@pytest.fixture
def asks() -> Iterator[Asks]:
    """Return a function that calls tools on some folders."""
    hosts = Hosts()

    def made(*folders: Path, kept: Kept | None = None, **reading: object) -> ToolCall:
        allowed = Allowed([str(one) for one in folders])
        return ToolCall(
            allowed,
            Kept() if kept is None else kept,
            hosts,
            Reading(**reading),  # type: ignore[arg-type]
            rules_of({}, ""),
            Event(),
        )

    yield made
    hosts.close()
