"""Answers each tool with what the command of its name finds, written in lines for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.selecting.parsing import parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.fragmentation.find import FragmentationOptions
from memreplay.commands.leaks.find import LeaksOptions
from memreplay.commands.oom.find import OomOptions
from memreplay.commands.report.find import ReportOptions
from memreplay.commands.simulate.changing import Changing
from memreplay.commands.simulate.find import SimulateOptions
from memreplay.errors import UsageError
from memreplay.mcp.arguments import given
from memreplay.render.compact import CompactLine, compact_lines

if TYPE_CHECKING:
    from memreplay.mcp.asking import Asking
    from memreplay.render.document import Document
    from memreplay.snapshot.model import When
    from memreplay.snapshot.snapshot import Snapshot

Lines = list[CompactLine]


def report(one: Any, asking: Asking) -> Lines:
    """A page: the worst device, and what to do."""
    from memreplay.commands.report.find import overview
    from memreplay.commands.report.text import report_document

    options, selection = given(one, ReportOptions), _selection(one, asking, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return report_document(overview(snapshot, selection, options))

    # What is no tool here is no advice.
    return [line for line in _about(one, asking, work) if "memreplay timeline " not in line.text]


def summary(one: Any, asking: Asking) -> Lines:
    """What is in the file, and whether it can be trusted."""
    from memreplay.commands.summary.find import summarize
    from memreplay.commands.summary.text import summary_document

    return _about(one, asking, lambda snapshot: summary_document(summarize(snapshot)))


def peak(one: Any, asking: Asking) -> Lines:
    """Who held memory at its peak."""
    from memreplay.commands.peak.find import peak_report
    from memreplay.commands.peak.text import peak_document

    selection = _selection(one, asking, fold=True)
    return _about(one, asking, lambda snapshot: peak_document(peak_report(snapshot, selection)))


def at(one: Any, asking: Asking) -> Lines:
    """Who held memory at a moment."""
    from memreplay.commands.at.find import at_report
    from memreplay.commands.at.text import at_document

    when, selection = _when(one.when), _selection(one, asking, fold=True)
    return _about(one, asking, lambda snapshot: at_document(at_report(snapshot, when, selection)))


def diff(one: Any, asking: Asking) -> Lines:
    """What changed between two."""
    from memreplay.commands.diff.find import diff_report
    from memreplay.commands.diff.text import diff_document

    options, selection = given(one, DiffOptions), _selection(one, asking)

    def work(base: Snapshot, new: Snapshot) -> Document:
        return diff_document(diff_report(base, new, selection, options))

    return compact_lines(asking.about_two(one.base, one.new, work, salvage=one.salvage))


def leaks(one: Any, asking: Asking) -> Lines:
    """What grows from step to step."""
    from memreplay.commands.leaks.find import leaks_report
    from memreplay.commands.leaks.text import leaks_document

    options, selection = given(one, LeaksOptions), _selection(one, asking)

    def work(snapshot: Snapshot) -> Document:
        return leaks_document(leaks_report(snapshot, selection, options))

    return _about(one, asking, work)


def oom(one: Any, asking: Asking) -> Lines:
    """Why a request failed."""
    from memreplay.commands.oom.find import oom_report
    from memreplay.commands.oom.text import LISTED, oom_document

    options, selection = given(one, OomOptions), _selection(one, asking, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return oom_document(oom_report(snapshot, selection, replace(options, most=LISTED)))

    return _about(one, asking, work)


def fragmentation(one: Any, asking: Asking) -> Lines:
    """What is reserved and not in use."""
    from memreplay.commands.fragmentation.find import fragmentation_report
    from memreplay.commands.fragmentation.text import fragmentation_document

    options, selection = given(one, FragmentationOptions), _selection(one, asking, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return fragmentation_document(fragmentation_report(snapshot, selection, options))

    return _about(one, asking, work)


def simulate(one: Any, asking: Asking) -> Lines:
    """The run with other settings, another card, or other sizes."""
    from memreplay.commands.simulate.find import simulate_report
    from memreplay.commands.simulate.text import simulate_document

    selection = _selection(one, asking)
    change = given(one, Changing).change(selection.filters)
    options = replace(given(one, SimulateOptions), change=change)

    def work(snapshot: Snapshot) -> Document:
        return simulate_document(simulate_report(snapshot, selection, options), top=5)

    return _about(one, asking, work)


def steps(one: Any, asking: Asking) -> Lines:
    """What each step does."""
    from memreplay.commands.steps.find import steps_report
    from memreplay.commands.steps.text import steps_document

    options, selection = given(one, StepOptions), _selection(one, asking)

    def work(snapshot: Snapshot) -> Document:
        return steps_document(steps_report(snapshot, selection, options), top=selection.top)

    return _about(one, asking, work)


def sql(one: Any, asking: Asking) -> Lines:
    """The rows of a query."""
    from memreplay.mcp.querying import queried

    def work(snapshot: Snapshot) -> Lines:
        return queried(snapshot, asking.rules, one.query, asking.stop)

    return asking.about(one.file, work, salvage=one.salvage)


def _about(one: Any, asking: Asking, work: Callable[[Snapshot], Document]) -> Lines:
    return compact_lines(asking.about(one.file, work, salvage=one.salvage))


def _selection(one: Any, asking: Asking, *, fold: bool = False) -> Selection:
    """What arguments ask of a snapshot, as far as they ask."""
    found: Selection = given(one, Selection)
    device = getattr(one, "device", UNSET)
    return replace(found, fold=fold, rules=asking.rules, device=None if device is UNSET else device)


def _when(text: str) -> When:
    try:
        return parse_when(text)
    except UsageError as error:
        raise UsageError(f"when: {error}") from None
