"""The snapshots that threads and processes query, and a guard against hangs."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.threads.asking import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
# These files have failed requests, steps and memreplay's notes, and are small enough for
# sanitizers.
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
    """If a test's threads hang, print every thread's stack and exit the process."""
    # pytest redirects file descriptor 2, and its output is lost if the process exits; pytest made
    # this copy before that.
    stderr = pytestconfig.stash.get(fault_handler_stderr_fd_key, 2)
    faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(params=FILES, scope="session")
def file(request: pytest.FixtureRequest) -> Path:
    """Run a test once with each file."""
    return FILES[request.param]
