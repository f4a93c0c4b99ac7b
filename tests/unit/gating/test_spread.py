"""spread: comparing the highest of several files with their median."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memreplay.analysis.selecting.sizes import share_of
from memreplay.gating.result import Cause, Finding, GatedFile
from memreplay.gating.spread import Peak, with_spread
from tests.unit.gating.gates import GREW, KEPT, PEAK, gated, unreadable


def own(n_bytes: int, *, share: float = 0.1, device: int = 0, budget: int = 0) -> Finding:
    """Return a file's peak, not yet compared with the others."""
    return Finding(
        rule="max-spread",
        kind="max_spread",
        outcome="not_judged",
        device=device,
        measure="held",
        limit_share=share,
        actual_bytes=n_bytes,
        detail="it needs several files",
        budget=budget,
    )


def files_of(*peaks: int, share: float = 0.1) -> list[GatedFile]:
    return [gated(f"rank{i}.pkl", None, (own(peak, share=share),)) for i, peak in enumerate(peaks)]


def never(_low: Peak, _high: Peak) -> tuple[Cause, ...]:
    raise AssertionError("nothing is broken")


def spreads(files: Sequence[GatedFile]) -> list[tuple[int, Finding]]:
    return [
        (at, one)
        for at, file in enumerate(files)
        for one in file.findings
        if one.kind == "max_spread"
    ]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_highest_file_is_compared_with_the_median(peaks: list[int], share: float) -> None:
    asked: list[tuple[int, int]] = []

    def explain(low: Peak, high: Peak) -> tuple[Cause, ...]:
        asked.append((low.file, high.file))
        return GREW

    found = with_spread(files_of(*peaks, share=share), explain)
    ((at, one),) = spreads(found)
    median = int(statistics.median(peaks))
    assert at == peaks.index(max(peaks))
    assert (one.actual_bytes, one.median_bytes, one.count) == (max(peaks), median, len(peaks))
    assert one.limit_bytes == median + share_of(median, share)
    broken = max(peaks) > one.limit_bytes
    assert one.outcome == ("failed" if broken else "passed")
    assert [file.passed for file in found] == [not (broken and i == at) for i in range(len(peaks))]
    assert one.causes == (GREW if broken else ())
    if broken:
        ((low, high),) = asked
        assert high == at
        assert peaks[low] == statistics.median_low(peaks)


def test_highest_device_counts_for_a_file() -> None:
    two = gated("rank1.pkl", None, (own(10, device=0), own(30, device=1)))
    found = with_spread([*files_of(10), two, *files_of(12)], lambda *_: GREW)
    ((at, one),) = spreads(found)
    assert (at, one.device, one.median_bytes, one.count) == (1, 1, 12, 3)


def test_every_budget_is_separate() -> None:
    files = [
        gated("a.pkl", None, (own(10), PEAK, own(9, share=0.0, budget=2))),
        gated("b.pkl", None, (own(10), KEPT, own(8, share=0.0, budget=2))),
    ]
    found = with_spread(files, lambda *_: ())
    assert [(at, one.budget, one.outcome) for at, one in spreads(found)] == [
        (0, 0, "passed"),
        (0, 2, "failed"),
    ]
    assert [one.kind for one in found[0].findings] == ["max_spread", "max_peak", "max_spread"]
    assert found[1].findings == (KEPT,)
    assert [one.passed for one in found] == [False, True]


def test_unjudged_files_do_not_count() -> None:
    broken = unreadable("rank9.pkl", "no such file")
    found = with_spread([broken, *files_of(10, 10)], never)
    assert found[0] is broken
    assert [one.count for _, one in spreads(found)] == [2]


@pytest.mark.parametrize("others", [[], [unreadable("rank1.pkl", "no such file")]])
def test_single_file_is_not_judged(others: list[GatedFile]) -> None:
    (alone,) = files_of(10)
    assert spreads(with_spread([alone, *others], never)) == [(0, own(10))]


def test_findings_are_unchanged_without_a_spread_limit() -> None:
    files = [gated("a.pkl", None, (PEAK,)), gated("b.pkl", None, (KEPT,))]
    assert all(one is two for one, two in zip(with_spread(files, never), files, strict=True))


def test_devices_of_one_file_are_compared_with_each_other() -> None:
    """Devices 0 to 2 of one file are judged like separate files."""
    file = gated("a.pkl", None, tuple(own(n, device=at) for at, n in enumerate((10, 30, 20))))
    ((at, one),) = spreads(with_spread([file], lambda *_: GREW))
    assert (at, one.device, one.median_bytes, one.count, one.of_devices) == (0, 1, 20, 3, True)
    assert (one.outcome, one.causes) == ("failed", GREW)
    ((_, alone),) = spreads(with_spread(files_of(5), never))
    assert (alone.outcome, alone.of_devices) == ("not_judged", False)


def test_every_dump_is_separate() -> None:
    files = [
        replace(file, dump=dump)
        for dump in ("iteration_1", "iteration_2")
        for file in files_of(*((10, 11) if dump == "iteration_1" else (100, 101)))
    ]
    found = spreads(with_spread(files, never, apart=True))
    assert [(at, one.actual_bytes, one.median_bytes) for at, one in found] == [
        (1, 11, 10),
        (3, 101, 100),
    ]
    ((at, one),) = spreads(with_spread(files, lambda *_: GREW))
    assert (at, one.count, one.outcome) == (3, 4, "failed")
