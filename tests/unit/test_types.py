"""Tests of __init__.pyi: what a type checker rejects is an error at run time, too.

mypy (`make typing`) checks this file. It reports each comment `type: ignore` that isn't needed, so
every call with one is an error for a type checker.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.commands.peak.result import PeakReport
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples/transformer_step.pkl.gz"


def test_results_have_types() -> None:
    found: PeakReport = mr.peak(EXAMPLE, by="file", top=3)
    peak_bytes: int = found.devices[0].peak_bytes
    text: str = mr.peak(EXAMPLE)  # type: ignore[assignment]
    label: str = mr.leaks(EXAMPLE).devices[0].step_count  # type: ignore[assignment]
    limit: str = mr.gate(EXAMPLE, max_peak="80GiB").passed  # type: ignore[assignment]
    assert peak_bytes > 0
    assert not any(isinstance(one, str) for one in (text, label, limit))


@pytest.mark.parametrize("source", [EXAMPLE, str(EXAMPLE), EXAMPLE.read_bytes(), mr.open(EXAMPLE)])
def test_snapshot_may_be_a_path_or_bytes(source: mr.Snapshot | str | bytes | Path) -> None:
    whole: os.PathLike[str] | str | bytes | mr.Snapshot = source
    assert mr.summary(whole).devices
    assert mr.diff(whole, whole, at="peak:1").devices
    with pytest.raises(TypeError, match="expected a path, bytes or a Snapshot, not 3"):
        mr.peak(3)  # type: ignore[arg-type]


def test_several_values_may_be_text_or_a_list() -> None:
    by_text, by_list = (
        mr.peak(EXAMPLE, by="category,file"),
        mr.peak(EXAMPLE, by=["category", "file"]),
    )
    assert by_text == by_list
    assert mr.peak(EXAMPLE, include="model").devices == mr.peak(EXAMPLE, include=["model"]).devices
    assert mr.timeline(EXAMPLE, measure="held,active").devices
    assert mr.peak(EXAMPLE, min_bytes="1MiB").devices == mr.peak(EXAMPLE, min_bytes=1 << 20).devices


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="peak\\(\\) has no option 'tops'"):
        mr.peak(EXAMPLE, tops=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="oom\\(\\) has no option 'pool'"):
        mr.oom(EXAMPLE, pool="default")  # type: ignore[call-arg]
    with pytest.raises(mr.UsageError, match="top must be a whole number of at least 0, not '3'"):
        mr.peak(EXAMPLE, top="3")  # type: ignore[arg-type]
    with pytest.raises(mr.UsageError, match="measure must be one of requested, held, "):
        mr.peak(EXAMPLE, measure="size")  # type: ignore[arg-type]
    with pytest.raises(mr.UsageError, match="tree must be True or False, not 1"):
        mr.at(EXAMPLE, "peak", tree=1)  # type: ignore[arg-type]
