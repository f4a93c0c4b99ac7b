"""The snapshots that threads and processes are asked about, and a guard against those that hang."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.threads.asking import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
# With requests that failed, steps and what memreplay noted; small enough for sanitizers.
FILES = {
    path.name.partition(".")[0]: path
    for path in (
        ROOT / "tests/data/serving_oom.pkl.gz",
        ROOT / "tests/data/recorded_gpt.pkl.gz",
        ROOT / "examples/cuda_graphs.pkl.gz",
    )
}


@pytest.fixture(autouse=True)
def no_deadlock() -> Iterator[None]:
    """Where threads wait for each other for ever, the process says where, and ends."""
    # `make sanitize` has another sys.stderr, which has no number.
    faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True, file=2)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(params=FILES, scope="session")
def file(request: pytest.FixtureRequest) -> Path:
    """One of them after the other."""
    return FILES[request.param]
