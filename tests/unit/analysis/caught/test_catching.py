"""caught: the allocations that each rule matched agree with a check of every live allocation in
plain Python.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.caught.records import RulesCaught
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.at.find import at_report
from memreplay.commands.at.result import DeviceAt
from memreplay.commands.peak.find import peak_report
from memreplay.errors import UsageError
from tests import build
from tests.build import SnapshotBuilder
from tests.strategies import traces

PATTERNS = ("a", "e", "^", "nowhere", r"py:\w*f", "0|1", "model", ":")


def rule_of(snap: mr.Snapshot, rules: tuple[Rule, ...], stack: int) -> int:
    """Return the index of the first rule that matches a frame, or the number of rules if none."""
    frames = [snap.frame(i) for i in snap.native.stack(stack)]
    for number, rule in enumerate(rules):
        pattern = rule.frames or ""
        if any(re.search(pattern, f"{frame.file}:{frame.function}") for frame in frames):
            return number
    return len(rules)


def devices_of(snap: mr.Snapshot, when: str = "peak", **choices: Any) -> list[DeviceAt]:
    return list(at_report(snap, when, caught=True, **choices).devices)


def caught_of(device: DeviceAt) -> RulesCaught:
    assert isinstance(device.caught, RulesCaught)
    return device.caught


@pytest.mark.parametrize("missing", range(64))
def test_64_rules_can_match_at_once(missing: int) -> None:
    """Each rule has its own bit, so all combinations are possible."""
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 7, frames=[("f", "m.py", 1)]).build()))
    rules = tuple(Rule(f"c{i}", "nowhere" if i == missing else "m") for i in range(64))
    (device,) = devices_of(snap, rules=rules)
    assert [one.category for one in caught_of(device).rules if one.bytes] == [
        "c1" if missing == 0 else "c0"
    ]


@given(traces(), st.lists(st.sampled_from(PATTERNS), max_size=4), st.integers(0, 3))
def test_matched_bytes_agree_with_plain_python(
    snapshot: build.Snapshot, patterns: list[str], top: int
) -> None:
    snap = mr.open(build.dump(snapshot))
    rules = tuple(Rule(f"c{i % 2}", pattern) for i, pattern in enumerate(patterns))
    devices = devices_of(snap, rules=rules, top=top)
    assert [one.device for one in devices] == list(snap.devices)
    for device in devices:
        one = caught_of(device)
        live = snap.replay(device.device).live_at(event=device.event_index)
        sums: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        stacks: dict[int, Counter[tuple[int, bool]]] = {}
        for stack, size, begin in zip(
            live.stack.tolist(), live.size.tolist(), live.alloc_event.tolist(), strict=True
        ):
            number = rule_of(snap, rules, stack)
            sums[number] += size
            counts[number] += 1
            key = (stack, begin == -1 and not stack)
            stacks.setdefault(number, Counter())[key] += size
        for number, caught in enumerate(one.rules):
            assert (caught.rule_number, caught.category) == (number + 1, rules[number].name)
            assert (caught.bytes, caught.count) == (sums[number], counts[number])
            if caught.largest is None:
                assert not counts[number]
            else:
                assert caught.largest.bytes == max(stacks[number].values())
        unknown = len(rules)
        assert (one.unknown_bytes, one.unknown_count) == (sums[unknown], counts[unknown])
        mine = sorted(stacks.get(unknown, Counter()).values(), reverse=True)
        assert one.unknown_total == len(mine)
        assert [group.bytes for group in one.unknown] == (mine[:top] if top else mine)
        assert device.live_bytes == sum(sums.values())
        assert device.live_count == sum(counts.values())


def test_custom_rules_work_with_moments_and_filters() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 100, frames=[("f", "model.py", 1)])
    builder.alloc(1024, 30, frames=[("g", "loss.py", 1)])
    builder.free_completed(512, 100)
    snap = mr.open(build.dump(builder.build()))
    rules = (Rule("mine", "loss"), *DEFAULT_RULES)
    one = caught_of(devices_of(snap, "end", rules=rules)[0])
    assert [caught.own for caught in one.rules] == [True, *[False] * len(DEFAULT_RULES)]
    assert (one.rules[0].bytes, one.rules[0].share, one.unknown_bytes) == (30, 1.0, 0)
    model = Filters(include=("model",))
    one = caught_of(devices_of(snap, rules=rules, filters=model)[0])
    assert (one.rules[0].bytes, one.unknown_bytes) == (0, 100)
    (peak,) = peak_report(
        snap, rules=rules, filters=Filters(include=("model",)), caught=True
    ).devices
    assert peak.caught == one
    with pytest.raises(
        UsageError, match="reserved memory has no categories; choose another measure"
    ):
        devices_of(snap, measure="reserved")
