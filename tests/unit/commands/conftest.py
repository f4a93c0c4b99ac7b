"""A stand-in for the library, so that these tests are of the command line alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import asdict, replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.peak.result import PeakReport
from memreplay.commands.summary.result import SnapshotSummary
from tests.commanding import command_runner
from tests.unit.commands.results import PEAK, SUMMARY


class FakeSnapshot:
    """What `memreplay.open` gives: a context manager that knows what it was opened from."""

    range_is_empty = False
    unknown_devices: tuple[int, ...] = ()

    def __init__(self, source: object) -> None:
        self.source = source
        self.closed = False

    def __enter__(self) -> FakeSnapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closed = True


@dataclass
class FakeLibrary:
    """Holds what was asked of the library; `errors` maps a source to what opening it raises."""

    snapshots: list[FakeSnapshot] = field(default_factory=list)
    peak_options: dict[str, object] = field(default_factory=dict)
    errors: dict[object, BaseException] = field(default_factory=dict)
    reading: dict[str, object] = field(default_factory=dict)
    peak_error: BaseException | None = None
    peak: PeakReport = PEAK
    summary: SnapshotSummary = SUMMARY
    while_reading: Callable[[Any], None] = lambda progress: None

    def open(self, source: object, *, progress: Any = None, **reading: object) -> FakeSnapshot:
        self.reading = reading
        if source in self.errors:
            raise self.errors[source]
        self.while_reading(progress)
        self.snapshots.append(FakeSnapshot(source))
        return self.snapshots[-1]

    def peak_report(
        self, snapshot: FakeSnapshot, selection: Selection, **options: object
    ) -> PeakReport:
        assert not snapshot.closed
        self.peak_options = asdict(selection) | options
        if self.peak_error is not None:
            raise self.peak_error
        return self.peak

    def summarize(self, snapshot: FakeSnapshot) -> SnapshotSummary:
        assert not snapshot.closed
        return replace(self.summary, file=str(snapshot.source))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """The library's stand-in, in place of the real one."""
    fake = FakeLibrary()
    peak, summary = (
        ModuleType("memreplay.commands.peak.find"),
        ModuleType("memreplay.commands.summary.find"),
    )
    vars(peak)["peak_report"] = fake.peak_report
    vars(summary)["summarize"] = fake.summarize
    monkeypatch.setitem(sys.modules, peak.__name__, peak)
    monkeypatch.setitem(sys.modules, summary.__name__, summary)
    monkeypatch.setattr("memreplay.snapshot.snapshot.open", fake.open)
    return fake


@pytest.fixture(autouse=True)
def neutral_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width or colour of whoever runs the tests."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def runner() -> CliRunner:
    """Runs commands in this process."""
    return command_runner()
