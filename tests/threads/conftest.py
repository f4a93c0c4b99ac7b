"""The snapshots that threads and processes are asked about, and a guard against those that hang."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

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
def no_deadlock(pytestconfig: pytest.Config) -> Iterator[None]:
    """Print every thread's stack and end the process if the threads of a test hang."""
    # pytest captures descriptor 2 and loses it with the process; this is a copy from before that.
    stderr = pytestconfig.stash.get(fault_handler_stderr_fd_key, 2)
    faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(params=FILES, scope="session")
def file(request: pytest.FixtureRequest) -> Path:
    """One of them after the other."""
    return FILES[request.param]
