"""A pytest plugin, `-p tests.no_skips`, that turns skips into failures."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _failed(report: Report) -> Report:
    # pytest reports an expected failure as a skip.
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"Skips are failures here. {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip in a test's report into a failure."""
    return _failed((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a file's report, because `importorskip` may skip a whole file."""
    return _failed((yield))
