"""A pytest plugin for tests in Pyodide. It leaves out tests that need a package, a process or a
thread that doesn't exist there, and prints how many. All other failures remain failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from typing import TypeVar

import pytest
from hypothesis import Phase, settings

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

OURS = ("memreplay", "tests")
PROCESSES = "emscripten does not support processes."
THREADS = "can't start new thread"

# Few examples, and no search for smaller ones, because this is ten times slower than natively.
settings.register_profile(
    "inside",
    deadline=None,
    print_blob=True,
    database=None,
    max_examples=5,
    phases=(Phase.explicit, Phase.generate),
)
left_out: Counter[str] = Counter()


def absent(error: BaseException | None) -> str:
    """Return what doesn't exist here, if that's what the error says."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return package if package not in OURS and find_spec(package) is None else ""
    if isinstance(error, OSError) and error.strerror == PROCESSES:
        return "processes"
    if isinstance(error, RuntimeError) and str(error) == THREADS:
        return "threads"
    return ""


def _judged(report: Report, what: str, kind: str) -> Report:
    if report.failed and what:
        left_out[f"{kind}s that need {what}"] += 1
        report.outcome = "skipped"
        report.longrepr = (report.nodeid, 0, f"needs {what}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave out a test."""
    what = absent(call.excinfo.value) if call.excinfo else ""
    return _judged((yield), what, "test")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Leave out a file."""
    report = yield
    call = getattr(report, "call", None)
    # pytest's own error has the import's as its cause.
    error = call.excinfo.value.__cause__ if call and call.excinfo else None
    return _judged(report, absent(error), "file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many are left out."""
    for what, count in sorted(left_out.items()):
        terminalreporter.write_line(f"left out: {count} {what}")
