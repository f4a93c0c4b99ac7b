"""joined: a table of several snapshots consists of their tables, one after another."""

from __future__ import annotations

from threading import Lock

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES
from tests import build
from tests.build import SnapshotBuilder

pa = pytest.importorskip("pyarrow")

from memreplay.export.tables.joined import FLAT, WHOSE, Joined, Source  # noqa: E402


def snap(n_bytes: int) -> mr.Snapshot:
    builder = SnapshotBuilder().alloc(512, n_bytes, frames=[("f", f"/home/ana/{n_bytes}.py", 3)])
    return mr.open(build.dump(builder.alloc(4096, n_bytes + 1).build()))


ONE, OTHER = snap(100), snap(200)


def joined(name: str, *sources: Source) -> Joined:
    return Joined(name, sources, DEFAULT_RULES, Lock())


def rows(table: Joined) -> list[dict[str, object]]:
    found = pa.Table.from_batches(list(table.batches()), table.schema)
    assert len(found) == table.rows
    return found.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["events", "allocations", "stacks", "usage", FLAT])
def test_rows_of_each_snapshot_have_its_label(name: str) -> None:
    both = joined(name, Source(ONE, "one"), Source(OTHER, "other"))
    want = []
    for snapshot, label in ((ONE, "one"), (OTHER, "other")):
        want += [{WHOSE: label} | row for row in rows(joined(name, Source(snapshot, None)))]
    assert rows(both) == want
    assert rows(both) == want  # -


def test_single_snapshot_has_no_label() -> None:
    assert WHOSE not in joined("events", Source(ONE, None)).schema.names


def test_flat_table_names_the_allocating_code() -> None:
    found = rows(joined(FLAT, Source(ONE, None)))
    assert [(row["function"], row["file"], row["line"]) for row in found] == [
        ("f", "/home/ana/100.py", 3),
        (None, None, None),
    ]
