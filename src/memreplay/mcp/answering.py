"""Answer each tool call with the result of its command, as lines for a model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.leaks.judging import LeaksOptions
from memreplay.analysis.selecting.parsing import parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.fragmentation.find import FragmentationOptions
from memreplay.commands.oom.find import OomOptions
from memreplay.commands.plan.find import PlanOptions
from memreplay.commands.report.find import ReportOptions
from memreplay.commands.simulate.find import SimulateOptions
from memreplay.errors import UsageError
from memreplay.mcp.arguments import given
from memreplay.render.compact import CompactLine, compact_lines

if TYPE_CHECKING:
    from memreplay.commands.report.result import DeviceOverview
    from memreplay.mcp.calls import ToolCall
    from memreplay.render.document import Document
    from memreplay.snapshot.model import When
    from memreplay.snapshot.snapshot import Snapshot

Lines = list[CompactLine]


def report(one: Any, tool_call: ToolCall, tools: Collection[str]) -> Lines:
    """Report on the worst device, and say what to do. `tools`: the commands to suggest."""
    from memreplay.commands.report.find import overview
    from memreplay.commands.report.text import report_document

    options, selection = given(one, ReportOptions), _selection(one, tool_call, fold=True)

    def work(snapshot: Snapshot) -> Document:
        found = overview(snapshot, selection, options)
        devices = tuple(_of_tools(device, tools) for device in found.devices)
        return report_document(replace(found, devices=devices))

    return _about(one, tool_call, work)


def _of_tools(device: DeviceOverview, tools: Collection[str]) -> DeviceOverview:
    """Leave out suggested commands that aren't tools."""
    suggested = zip(device.commands, device.command_reasons, strict=True)
    kept = [(command, why) for command, why in suggested if command.split()[1] in tools]
    return replace(
        device,
        commands=tuple(command for command, _ in kept),
        command_reasons=tuple(why for _, why in kept),
    )


def summary(one: Any, tool_call: ToolCall) -> Lines:
    """Report the file's contents and trustworthiness."""
    from memreplay.commands.summary.find import summarize
    from memreplay.commands.summary.text import summary_document

    return _about(one, tool_call, lambda snapshot: summary_document(summarize(snapshot)))


def peak(one: Any, tool_call: ToolCall) -> Lines:
    """Report who held memory at the peak."""
    from memreplay.commands.peak.find import peak_report
    from memreplay.commands.peak.text import peak_document

    selection = _selection(one, tool_call, fold=True)
    return _about(one, tool_call, lambda snapshot: peak_document(peak_report(snapshot, selection)))


def at(one: Any, tool_call: ToolCall) -> Lines:
    """Report who held memory at a moment."""
    from memreplay.commands.at.find import at_report
    from memreplay.commands.at.text import at_document

    when, selection = _when(one.when), _selection(one, tool_call, fold=True)
    return _about(
        one, tool_call, lambda snapshot: at_document(at_report(snapshot, when, selection))
    )


def diff(one: Any, tool_call: ToolCall) -> Lines:
    """Report the changes between two snapshots."""
    from memreplay.commands.diff.find import diff_report
    from memreplay.commands.diff.text import diff_document

    options, selection = given(one, DiffOptions), _selection(one, tool_call)

    def work(base: Snapshot, new: Snapshot) -> Document:
        return diff_document(diff_report(base, new, selection, options))

    return compact_lines(tool_call.about_two(one.base, one.new, work, salvage=one.salvage))


def leaks(one: Any, tool_call: ToolCall) -> Lines:
    """Report growth from step to step."""
    from memreplay.commands.leaks.find import leaks_report
    from memreplay.commands.leaks.text import leaks_document

    options, selection = given(one, LeaksOptions), _selection(one, tool_call)

    def work(snapshot: Snapshot) -> Document:
        return leaks_document(leaks_report(snapshot, selection, options))

    return _about(one, tool_call, work)


def oom(one: Any, tool_call: ToolCall) -> Lines:
    """Report why a request failed."""
    from memreplay.commands.oom.find import oom_report
    from memreplay.commands.oom.text import LISTED, oom_document

    options, selection = given(one, OomOptions), _selection(one, tool_call, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return oom_document(oom_report(snapshot, selection, replace(options, most=LISTED)))

    return _about(one, tool_call, work)


def fragmentation(one: Any, tool_call: ToolCall) -> Lines:
    """Report reserved but unused memory."""
    from memreplay.commands.fragmentation.find import fragmentation_report
    from memreplay.commands.fragmentation.text import fragmentation_document

    options, selection = given(one, FragmentationOptions), _selection(one, tool_call, fold=True)

    def work(snapshot: Snapshot) -> Document:
        return fragmentation_document(fragmentation_report(snapshot, selection, options))

    return _about(one, tool_call, work)


def simulate(one: Any, tool_call: ToolCall) -> Lines:
    """Simulate the run with other settings, card or sizes."""
    from memreplay.commands.simulate.find import simulate_report
    from memreplay.commands.simulate.text import simulate_document

    selection, options = _selection(one, tool_call), given(one, SimulateOptions)
    options.changing.change(selection.filters)  # fails before the file is read

    def work(snapshot: Snapshot) -> Document:
        return simulate_document(simulate_report(snapshot, selection, options), top=5)

    return _about(one, tool_call, work)


def plan(one: Any, tool_call: ToolCall) -> Lines:
    """Find the cheapest changes with which the run fits a card."""
    from memreplay.commands.plan.find import plan_report
    from memreplay.commands.plan.text import plan_document

    options, selection = given(one, PlanOptions), _selection(one, tool_call)
    options.card()  # fails before the file is read

    def work(snapshot: Snapshot) -> Document:
        return plan_document(plan_report(snapshot, selection, options))

    return _about(one, tool_call, work)


def steps(one: Any, tool_call: ToolCall) -> Lines:
    """Report each step."""
    from memreplay.commands.steps.find import steps_report
    from memreplay.commands.steps.text import steps_document

    options, selection = given(one, StepOptions), _selection(one, tool_call)

    def work(snapshot: Snapshot) -> Document:
        return steps_document(steps_report(snapshot, selection, options), top=selection.top)

    return _about(one, tool_call, work)


def sql(one: Any, tool_call: ToolCall) -> Lines:
    """Return a query's rows."""
    return tool_call.ask(one.file, one.query, salvage=one.salvage)


def _about(one: Any, tool_call: ToolCall, work: Callable[[Snapshot], Document]) -> Lines:
    return compact_lines(tool_call.about(one.file, work, salvage=one.salvage))


def _selection(one: Any, tool_call: ToolCall, *, fold: bool = False) -> Selection:
    """Build the selection from the arguments."""
    found: Selection = given(one, Selection)
    device = getattr(one, "device", UNSET)
    return replace(
        found, fold=fold, rules=tool_call.rules, device=None if device is UNSET else device
    )


def _when(text: str) -> When:
    try:
        return parse_when(text)
    except UsageError as error:
        raise UsageError(f"when: {error}") from None
