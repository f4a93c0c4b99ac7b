"""Real snapshots of other people: every number against the oracle and the published table."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from memreplay.reports.dump import render_dump
from tests import oracle
from tests.compare import assert_like_oracle
from tests.dumped import expected_tables, read_dump

# The exact requested peak of each file, and the first event after which it is reached.
PEAKS = {
    "Wedsonlin_assignment2-systems__medium_1024_training_memory_snapshot": 24_207_167_496,
    "Wedsonlin_assignment2-systems__medium_512_inference_memory_snapshot": 1_949_343_744,
    "kkaitlyn111_cs336-a2-systems__memory_ctx128_fullstep": 54_802_667_524,
    "kkaitlyn111_cs336-a2-systems__memory_ctx256_fullstep_": 54_824_462_340,
    "kkaitlyn111_cs336-a2-systems__memory_ctx512_forward_mixed": 39_860_763_648,
    "a0kuma__adam": 217_763_364,
    "LfieLike_SketchKV2__my_snapshot": 16_380_108_176,
    "Yiyi-philosophy_LLM-inference__1.3b_snapshot": 5_692_346_376,
    "Yiyi-philosophy_LLM-inference__oom_snapshot": 11_840_159_744,
}


def test_equals_the_oracle(corpus_file: Path) -> None:
    assert_like_oracle(corpus_file, oracle.load(corpus_file.read_bytes()))


def test_the_dump_is_what_is_in_the_file(corpus_file: Path) -> None:
    found = read_dump(render_dump(mr.open(corpus_file), "ndjson")).tables
    want = expected_tables(oracle.load(corpus_file.read_bytes()))
    for table, rows in want.items():
        assert found[table] == rows, table


@pytest.mark.parametrize("name", PEAKS)
def test_published_peak(corpus: Path, name: str) -> None:
    snap = mr.open(corpus / f"{name}.pickle")
    assert snap.replay(0).peak.bytes == PEAKS[name]
