"""Answers each tool with what the command of its name finds, written in lines for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.parsing import parse_least_size, parse_ways, parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.mcp import arguments as asked
from memreplay.commands.mcp.patterns import checked_pattern
from memreplay.errors import UsageError
from memreplay.render.compact import CompactLine, compact_lines

if TYPE_CHECKING:
    from memreplay.commands.mcp.asking import Asking
    from memreplay.render.document import Document
    from memreplay.snapshot.model import When
    from memreplay.snapshot.snapshot import Snapshot

Lines = list[CompactLine]


def report(one: asked.ReportArguments, asking: Asking) -> Lines:
    """A page: the worst device, and what to do."""
    from memreplay.commands.report.find import overview
    from memreplay.commands.report.text import report_document

    total, selection = _size(one.total_memory), _selection(one, asking, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return report_document(overview(snapshot, selection, total_memory=total))

    # What is no tool here is no advice.
    return [line for line in _about(one, asking, work) if "memreplay timeline " not in line.text]


def summary(one: asked.OfFile, asking: Asking) -> Lines:
    """What is in the file, and whether it can be trusted."""
    from memreplay.commands.summary.find import summarize
    from memreplay.commands.summary.text import summary_document

    return _about(one, asking, lambda snapshot: summary_document(summarize(snapshot)))


def peak(one: asked.Chosen, asking: Asking) -> Lines:
    """Who held memory at its peak."""
    from memreplay.commands.peak.find import peak_report
    from memreplay.commands.peak.text import peak_document

    selection = _selection(one, asking, fold=True)
    return _about(one, asking, lambda snapshot: peak_document(peak_report(snapshot, selection)))


def at(one: asked.AtArguments, asking: Asking) -> Lines:
    """Who held memory at a moment."""
    from memreplay.commands.at.find import at_report
    from memreplay.commands.at.text import at_document

    when, selection = _when(one.when), _selection(one, asking, fold=True)
    return _about(one, asking, lambda snapshot: at_document(at_report(snapshot, when, selection)))


def diff(one: asked.DiffArguments, asking: Asking) -> Lines:
    """What changed between two."""
    from memreplay.commands.diff.find import diff_report
    from memreplay.commands.diff.text import diff_document

    when, selection = _when(one.when), _selection(one, asking)

    def work(base: Snapshot, new: Snapshot) -> Document:
        return diff_document(diff_report(base, new, selection, at=when))

    return compact_lines(asking.about_two(one.base, one.new, work, salvage=one.salvage))


def leaks(one: asked.LeaksArguments, asking: Asking) -> Lines:
    """What grows from step to step."""
    from memreplay.commands.leaks.find import leaks_report
    from memreplay.commands.leaks.text import leaks_document

    selection = _selection(one, asking)
    windows, total = _or_none(one.windows), _size(one.total_memory)

    def work(snapshot: Snapshot) -> Document:
        found = leaks_report(snapshot, selection, windows=windows, total_memory=total)
        return leaks_document(found)

    return _about(one, asking, work)


def oom(one: asked.OomArguments, asking: Asking) -> Lines:
    """Why a request failed."""
    from memreplay.commands.oom.find import oom_report
    from memreplay.commands.oom.text import LISTED, oom_document

    selection, total = _selection(one, asking, fold=True), _size(one.total_memory)

    def work(snapshot: Snapshot) -> Document:
        found = oom_report(snapshot, selection, number=one.oom, most=LISTED, total_memory=total)
        return oom_document(found)

    return _about(one, asking, work)


def fragmentation(one: asked.FragmentationArguments, asking: Asking) -> Lines:
    """What is reserved and not in use."""
    from memreplay.commands.fragmentation.find import fragmentation_report
    from memreplay.commands.fragmentation.text import fragmentation_document

    when = None if one.when is UNSET else _when(one.when)
    selection = _selection(one, asking, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return fragmentation_document(fragmentation_report(snapshot, selection, at=when))

    return _about(one, asking, work)


def simulate(one: asked.SimulateArguments, asking: Asking) -> Lines:
    """The run with other settings, another card, or other sizes."""
    from memreplay.commands.simulate.find import simulate_report
    from memreplay.commands.simulate.text import simulate_document

    selection, total = _selection(one, asking), _size(one.total_memory)
    change = None
    chosen = one.category is not UNSET or one.include is not UNSET
    if one.scale is not UNSET:
        from memreplay.analysis.selecting.selection import Filters
        from memreplay.analysis.simulating.editing import Change

        include = _patterns("include", one.include)
        filters = Filters(include=include) if one.include is not UNSET else None
        change = Change(factor=one.scale, filters=filters, categories=_texts(one.category))
    elif chosen:
        raise UsageError("what to do with the chosen allocations? give scale")

    def work(snapshot: Snapshot) -> Document:
        found = simulate_report(
            snapshot,
            selection,
            settings=one.settings,
            total_memory=() if total is None else total,
            change=change,
            search=one.search,
        )
        return simulate_document(found, top=5)

    return _about(one, asking, work)


def steps(one: asked.StepsArguments, asking: Asking) -> Lines:
    """What each step does."""
    from memreplay.commands.steps.find import steps_report
    from memreplay.commands.steps.text import steps_document

    selection = _selection(one, asking)
    annotation, period = one.annotation or None, one.period or None

    def work(snapshot: Snapshot) -> Document:
        found = steps_report(snapshot, selection, annotation=annotation, period=period)
        return steps_document(found, top=selection.top)

    return _about(one, asking, work)


def sql(one: asked.SqlArguments, asking: Asking) -> Lines:
    """The rows of a query."""
    from memreplay.commands.mcp.querying import queried

    def work(snapshot: Snapshot) -> Lines:
        return queried(snapshot, asking.rules, one.query, asking.stop)

    return asking.about(one.file, work, salvage=one.salvage)


def _about(one: asked.OfFile, asking: Asking, work: Callable[[Snapshot], Document]) -> Lines:
    return compact_lines(asking.about(one.file, work, salvage=one.salvage))


def _selection(one: Any, asking: Asking, *, fold: bool = False) -> Selection:
    """What a record asks of a snapshot, as far as it asks."""
    given: dict[str, Any] = {"fold": fold, "rules": asking.rules}
    for name in ("measure", "top", "device"):
        value = getattr(one, name, UNSET)
        if value is not UNSET:
            given[name] = value
    by = getattr(one, "by", UNSET)
    if by is not UNSET:
        given["by"] = _value("by", parse_ways, by)
    include, exclude = (
        _patterns(name, getattr(one, name, UNSET)) for name in ("include", "exclude")
    )
    if (include or exclude) and not isinstance(one, asked.SimulateArguments):
        from memreplay.analysis.selecting.selection import Filters

        given["filters"] = Filters(include=include, exclude=exclude)
    return Selection(**given)


def _texts(value: str | UnsetType) -> tuple[str, ...]:
    return () if value is UNSET or not value else (value,)


def _patterns(name: str, value: str | UnsetType) -> tuple[str, ...]:
    return tuple(checked_pattern(name, one) for one in _texts(value))


def _or_none(value: int | UnsetType) -> int | None:
    return None if value is UNSET else value


def _size(text: str | UnsetType) -> int | None:
    return None if text is UNSET else _value("total_memory", parse_least_size, text)


def _when(text: str) -> When:
    found: When = _value("when", parse_when, text)
    return found


def _value(name: str, parse: Callable[[str], Any], text: str) -> Any:
    """A text as an option takes it. Raises UsageError that names the argument."""
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
