"""The bytes that advice names agree with the table of categories, in recorded files and in
generated programs whose truth is known.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import memreplay as mr
from memreplay.commands.report.advice import BEFORE, CACHE, STATE
from memreplay.commands.report.advice_text import advice_text
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import DeviceOverview
from memreplay.render.units import size
from tests.conftest import ROOT
from tests.unit.analysis.advising.programs import (
    ACTIVATION,
    BACKWARD,
    EVALUATED,
    FORWARD,
    INIT,
    INIT_SECOND,
    MIB,
    PARAMETER,
    Program,
    Stack,
)

ATTENTION = [("forward", "/home/ana/attention.py", 9), *FORWARD]
FILES = sorted(
    path for folder in ("tests/data", "examples") for path in (ROOT / folder).rglob("*.pkl.gz")
)


def by_category(snap: mr.Snapshot, device: int) -> Counter[str]:
    """Return the rows of `peak --by category`."""
    (found,) = mr.peak(snap, device=device, by="category", top=0).devices
    return Counter({one.label: one.bytes for one in found.groups})


def check(snap: mr.Snapshot, device: DeviceOverview) -> dict[str, int]:
    """Compare a device's advice with the table; return the advised bytes."""
    table = by_category(snap, device.device)
    assert Counter({one.category: one.bytes for one in device.peak.categories}) <= table
    found = {}
    for one in device.advice:
        found[one.name] = one.bytes
        if one.name == "checkpoint":
            names = one.word.split(", ")
            assert all(table[name] for name in names)
            assert one.bytes <= sum(table[name] for name in names)
            assert " and ".join(names) in advice_text(one, device)
        elif one.name == "optimizer_state":
            assert one.bytes == sum(table[name] for name in STATE)
        elif one.name == "kv_cache":
            assert one.bytes == sum(table[name] for name in CACHE)
        elif one.name == "record_earlier":
            assert one.bytes == sum(n for name, n in table.items() if name.startswith(BEFORE))
        if one.of_bytes == device.peak.peak_bytes:
            assert one.frame_bytes <= one.bytes <= one.of_bytes
            assert one.saved_bytes <= one.of_bytes
            assert size(one.bytes) in advice_text(one, device)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_advice_on_recorded_files_agrees_with_the_table(path: Path) -> None:
    snap = mr.open(path)
    for device in overview(snap).devices:
        check(snap, device)


class Known(Program):
    """A program that notes, at its peak, the bytes of each category, and those that a backward pass
    needs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak, self.at_peak, self.kept_at_peak = 0, Counter[str](), Counter[str]()
        self.now, self.kept = Counter[str](), Counter[str]()
        self.named: dict[int, tuple[str, bool]] = {}

    def make(self, size: int, stack: Stack, category: str, *, kept: bool = False) -> int:
        block = self.alloc(size, stack)
        self.named[block] = category, kept
        self.now[category] += size
        self.kept[category] += size * kept
        if self.now.total() > self.peak:
            self.peak, self.at_peak = self.now.total(), self.now.copy()
            self.kept_at_peak = +self.kept
        return block

    def drop(self, *blocks: int) -> None:
        for block in blocks:
            category, kept = self.named.pop(block)
            self.now[category] -= self.live[block]
            self.kept[category] -= self.live[block] * kept
            self.free(block)


@pytest.mark.parametrize("seed", range(40))
def test_advice_on_generated_programs_agrees_with_the_table(seed: int) -> None:
    """A training step keeps some results for its backward pass and frees the others. An evaluation
    keeps none.
    """
    random = Random(seed)
    made = Known()
    parameters = [made.make(random.randrange(1, 20) * MIB, PARAMETER, "parameters")]
    state: list[int] = []
    keeps_attention = seed % 4 != 0
    for _ in range(2):
        kept: list[int] = []
        for _ in range(random.randrange(4, 12)):
            for name, stack in (("activations", ACTIVATION), ("attention", ATTENTION)):
                keeps = random.random() < 0.6 and (name == "activations" or keeps_attention)
                block = made.make(random.randrange(1, 40) * MIB, stack, name, kept=keeps)
                if keeps:
                    kept.append(block)
                else:
                    made.drop(block)
        for block in reversed(kept):
            made.drop(block, made.make(MIB // 2, BACKWARD, "backward"))
        if not state:
            sizes = [made.live[block] for block in parameters]
            for stack in (INIT, INIT_SECOND):
                state += [made.make(size, stack, "optimizer state") for size in sizes]
        made.drop(made.make(MIB, EVALUATED, "activations"))
    snap = made.snapshot()
    (device,) = overview(snap).devices
    advised = check(snap, device)
    assert device.peak.peak_bytes == made.peak
    assert by_category(snap, 0) == +made.at_peak
    for one in device.advice:
        if one.name == "checkpoint":
            assert advised["checkpoint"] == made.kept_at_peak.total()
            assert set(one.word.split(", ")) == set(made.kept_at_peak)
