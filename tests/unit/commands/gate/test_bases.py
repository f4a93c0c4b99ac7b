"""bases: open one base at a time, and read it once for consecutive files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from memreplay.commands.gate import bases
from memreplay.commands.gate.bases import Bases
from memreplay.commands.shared.base import opened_base
from memreplay.commands.shared.source import Reading
from memreplay.gating.find import Terms
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for number in range(2):
        builder = SnapshotBuilder()
        builder.alloc(0x1000, 512 << number)
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(build.dump(builder.build()))
        paths.append(str(path))
    return paths[0], paths[1]


def test_only_one_base_at_a_time_is_in_memory(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(name: str, *rest: object) -> object:
        read.append(name)
        return opened_base(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(bases, "opened_base", counting)
    found = Bases(Reading(), Terms(), lambda _file: nullcontext(None))
    first, second = two
    for name in (first, first, second, second, first):
        side, code, words = found.of(name)
        assert (code, words) == (0, "")
        assert side is not None
        assert side.file == name
    assert read == [first, second, first]
    found.close()


def test_unreadable_base_is_read_once(tmp_path: Path) -> None:
    found = Bases(Reading(), Terms(), lambda _file: nullcontext(None))
    missing = str(tmp_path / "none.json")
    assert found.of(missing) == (None, 3, "no such file")
    assert found.of(missing) is found.of(missing)
