"""Format memory by module as text."""

from __future__ import annotations

from typing import Literal

from memreplay.commands.at.text import when_text
from memreplay.commands.modules.result import DeviceModules, ModuleBytes, ModulesReport
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
    device_blocks,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.headline import moment_phrases
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import UNITS, counted, range_text, size

NO_MODULE = "(in no module)"
# What each column means. Columns with only zeros are left out.
COLUMNS = {
    "params": ("parameters_bytes",),
    "buffers": ("buffers_bytes",),
    "grads": ("gradients_bytes",),
    "state": ("optimizer_state_bytes",),
    "activ.": ("activations_bytes",),
    "other": (
        "inputs_bytes",
        "temporary_bytes",
        "autograd_detail_bytes",
        "communication_bytes",
        "other_bytes",
    ),
}
PEAKS = {"peak fwd": ("peak_forward_bytes",), "peak bwd": ("peak_backward_bytes",)}


def modules_document(report: ModulesReport) -> Document:
    """Build a section per device, with a table of its modules."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    blocks += device_blocks([_section(found, report) for found in report.devices])
    return tuple(blocks)


def _section(found: DeviceModules, report: ModulesReport) -> list[Block]:
    live = f"device {found.device}: {size(found.live_bytes)} {found.measure}"
    heading = (
        moment_phrases(live, found, "after") if found.events else (f"{live} in the final state",)
    )
    blocks: list[Block] = [Heading(heading), Pairs(_pairs(found, report))]
    if found.modules:
        blocks.append(_table(found))
        rows = sum(one.module is not None for one in found.modules)
        if hidden := found.modules_total - rows:
            blocks.append(Note(f"{counted(hidden, 'module')} left out (--top 0 shows all)"))
    else:
        blocks.append(Note(NOTHING_LEFT if report.filters else "nothing was held"))
    return [*blocks, *notes_of(found)]


def _pairs(found: DeviceModules, report: ModulesReport) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("moment", when_text(report.moment)),
        ("measure", f"{found.measure}, {trust_label(found)}"),
        ("modules", "recorded"),
        ("sizes", f"in {UNITS[_unit(found)]}; a module's numbers include its submodules"),
    ]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    pairs += filter_pairs(report.filters)
    if found.events < found.trace_events:
        words = range_text(found.first_event, found.events, found.trace_events)
        pairs.append(("range", words))
    if found.unknown_bytes:
        words = f"{size(found.unknown_bytes)}, other memory outside all modules"
        pairs.append(("not noted", words))
    return tuple(pairs)


def _unit(found: DeviceModules) -> int:
    """Return the unit that all of a table's numbers have, as an index in UNITS."""
    largest = max(
        (
            max(one.total_bytes, one.peak_forward_bytes, one.peak_backward_bytes)
            for one in found.modules
        ),
        default=0,
    )
    unit = 0
    while unit < len(UNITS) - 1 and largest >= (1024 if unit == 0 else 10_240):
        largest, unit = largest // 1024, unit + 1
    return unit


def _table(found: DeviceModules) -> Table:
    """Build a table with a line per module, without columns of zeros."""
    unit = _unit(found)
    shown = {
        title: names
        for title, names in (COLUMNS | {"total": ("total_bytes",)} | PEAKS).items()
        if title == "total" or any(_sum(one, names) for one in found.modules)
    }
    rows = tuple(
        Row(
            (
                *(_number(_sum(one, names), unit) for names in shown.values()),
                Place("  " * (one.depth - 1) + _short(one.module)),
            ),
            style="plain" if one.module is not None else "dim",
        )
        for one in found.modules
    )
    titles = list(shown)
    spare = tuple(titles.index(title) for title in ("buffers", "other") if title in shown)
    aligns: list[Literal["left", "right"]] = ["right"] * len(titles)
    return Table((*titles, "module"), (*aligns, "left"), rows, spare)


def _sum(one: ModuleBytes, names: tuple[str, ...]) -> int:
    return sum(getattr(one, name) for name in names)


def _number(n_bytes: int, unit: int) -> str:
    """Return a number in the table's unit, such as `1,234.5`, `<0.1`, or `-` for zero."""
    if n_bytes == 0:
        return "-"
    value = n_bytes / 1024**unit
    if unit == 0:
        return f"{n_bytes:,}"
    return "<0.1" if value < 0.05 else f"{value:,.1f}"


def _short(module: str | None) -> str:
    """Return the last part of a name. The rows above show the rest."""
    return NO_MODULE if module is None else module.rpartition(".")[2] or "(no name)"
