"""Tests of groups/recording.py: group by recorded notes, in every command that groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import Rule
from memreplay.analysis.groups.grouping import Grouper
from memreplay.commands.app import app
from memreplay.export.viewers.torch_categories import COLUMNS, category_events
from tests import build
from tests.build import SnapshotBuilder
from tests.commanding import command_runner
from tests.strategies import column

CATEGORIES = ["", "activations", "gradients", "activations", "unknown"]
PHASES = ["forward", "", "backward"]
MODULES = ["", "GPT", "GPT.Linear", "GPT.Linear"]
# Each allocation's category, phase and module (None without notes) and its bytes.
MADE: list[tuple[tuple[int, int, int] | None, int]] = [
    ((1, 0, 2), 1 << 10),
    ((3, 0, 3), 2 << 10),
    ((2, 2, 1), 4 << 10),
    ((0, 1, 0), 8 << 10),
    ((4, 2, 2), 16 << 10),
    (None, 32 << 10),
]
EXPECTED = {
    "category": {"activations": 3 << 10, "gradients": 4 << 10, "unknown": 56 << 10},
    "phase": {"forward": 3 << 10, "backward": 20 << 10, "unknown": 40 << 10},
    "module": {
        "GPT.Linear": 19 << 10,
        "GPT": 4 << 10,
        "(in no module)": 8 << 10,
        "unknown": 32 << 10,
    },
}


def recorded(made: list[tuple[tuple[int, int, int] | None, int]]) -> Any:
    builder = SnapshotBuilder()
    for i, (_, size) in enumerate(made):
        builder.alloc(0x10_0000 * (i + 1), size, frames=[("work", "/home/me/model.py", 1 + i % 2)])
    whole = builder.finish_segments().build()
    noted = [kind for kind, _ in made if kind is not None]
    numbers = [0 if kind is None else 1 + noted.index(kind) for kind, _ in made]
    whole["memreplay"] = {
        "allocations": {
            "categories": CATEGORIES,
            "phases": PHASES,
            "modules": MODULES,
            "kinds": column(np.array(noted, "<u4")),
            "events": [column(np.array(numbers, "<u4"))],
            "before": {"addresses": column(np.empty(0)), "kinds": column(np.empty(0))},
        }
    }
    return whole


@pytest.fixture
def snap() -> mr.Snapshot:
    return mr.open(build.dump(recorded(MADE)))


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(recorded(MADE)))
    return str(path)


def sums(snap: mr.Snapshot, by: Any, rules: Any = None) -> dict[str, int]:
    usage = snap.replay(0).measure()
    found, total, _ = Grouper(snap, by, rules).groups(usage, len(MADE) - 1, 0)
    assert len({group.label for group in found}) == len(found) == total
    return {group.label: group.bytes for group in found}


@pytest.mark.parametrize("by", EXPECTED)
def test_equal_names_are_one_group(snap: mr.Snapshot, by: str) -> None:
    assert sums(snap, by) == EXPECTED[by]


def test_recorded_keys_can_be_combined(snap: mr.Snapshot) -> None:
    assert sums(snap, "category,module") == {
        "activations, GPT.Linear": 3 << 10,
        "gradients, GPT": 4 << 10,
        "unknown, (in no module)": 8 << 10,
        "unknown, GPT.Linear": 16 << 10,
        "unknown, unknown": 32 << 10,
    }


def test_custom_rules_come_first(snap: mr.Snapshot) -> None:
    mine = (Rule("mine", frames="model.py"),)
    assert sums(snap, "category", mine) == {"mine": 63 << 10}
    # A rule named like a recorded category extends that category.
    own = (Rule("gradients", annotation="none is"), Rule("activations", compile_context="nor"))
    assert sums(snap, "category", own) == EXPECTED["category"]
    both = (Rule("gradients", frames="model.py"),)
    assert sums(snap, "category", both) == {"gradients": 63 << 10}


def test_diff_groups_by_recorded_notes(path: str, tmp_path: Path) -> None:
    larger = [(kind, size * 2 if kind == (2, 2, 1) else size) for kind, size in MADE]
    other = tmp_path / "new.pkl"
    other.write_bytes(build.dump(recorded(larger)))
    for by, label in (("category", "gradients"), ("phase", "backward"), ("module", "GPT")):
        args = [
            "diff",
            path,
            str(other),
            "--by",
            by,
            "--format",
            "json",
            "--unchanged",
            "--top",
            "0",
        ]
        result = command_runner().invoke(app, args)
        assert result.exit_code == 0, result.output
        (device,) = json.loads(result.stdout)["devices"]
        rows = {row["label"]: row for row in device["rows"]}
        assert {name: row["base_bytes"] for name, row in rows.items()} == EXPECTED[by]
        changed = {name: row["change_bytes"] for name, row in rows.items() if row["change_bytes"]}
        assert changed == {label: 4 << 10}


def test_gate_checks_a_recorded_category(path: str, tmp_path: Path) -> None:
    config = tmp_path / "memreplay.toml"
    args = ["gate", path, "--config", str(config)]
    for category, limit, code in (
        ("gradients", 4 << 10, 0),
        ("gradients", (4 << 10) - 1, 1),
        ("unknown", 56 << 10, 0),
        ("unknown", (56 << 10) - 1, 1),
    ):
        config.write_text(f'[[gate]]\ncategory = "{category}"\nmax_peak = "{limit}B"\n')
        result = command_runner().invoke(app, args)
        assert result.exit_code == code, result.output
    config.write_text('[[gate]]\ncategory = "backward"\nmax_peak = "1B"\n')
    result = command_runner().invoke(app, args)
    assert result.exit_code == 2
    assert "known: activations, gradients" in " ".join(result.stderr.split())


def test_recorded_categories_match_torch_profilers(snap: mr.Snapshot) -> None:
    found = category_events(snap)
    held = dict.fromkeys(COLUMNS, 0)
    for category, n_bytes in zip(found.category.tolist(), found.bytes.tolist(), strict=True):
        held[COLUMNS[category]] += n_bytes
    assert {name: n_bytes for name, n_bytes in held.items() if n_bytes} == {
        "activation": 3 << 10,
        "gradient": 4 << 10,
        "unknown": 56 << 10,
    }


def test_sql_returns_recorded_notes(path: str) -> None:
    query = "select category, phase, module, sum(bytes)::bigint from allocations group by all"
    args = ["sql", path, f"{query} order by 4", "--format", "json"]
    result = command_runner().invoke(app, args)
    assert result.exit_code == 0, result.output
    rows = [tuple(row.values()) for row in json.loads(result.stdout)]
    assert rows == [
        ("activations", "forward", "GPT.Linear", 3 << 10),
        ("gradients", "backward", "GPT", 4 << 10),
        ("unknown", "backward", "GPT.Linear", 16 << 10),
        ("unknown", "unknown", None, 40 << 10),
    ]
    flat = command_runner().invoke(app, ["sql", path, "select * from flat", "--format", "json"])
    assert [row["module"] for row in json.loads(flat.stdout)][:2] == ["GPT.Linear"] * 2
