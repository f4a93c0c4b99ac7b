"""Export views: traces, flame graphs, profiles, and torch.profiler's memory timeline."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.export.messages import say_file
from memreplay.commands.shared.errors import CUT_OFF, attempt, say
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.source import opened
from memreplay.errors import UsageError
from memreplay.export.naming import PAGES, check_one_file
from memreplay.render.plot import check_plot

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export
    from memreplay.export.viewers.records import CategoryEvents, StacksReport, TraceReport
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.snapshot import Snapshot

    # The file's chunks, notes to print, and the number of items written: (unit, number, plural).
    Rendered = tuple[Iterator[bytes], tuple[str, ...], tuple[str, int, str]]
    Render = Callable[[Snapshot], Rendered]

# Formats that are compressed unless the file name says otherwise.
_COMPRESSED = {"pprof": (".pb", ".pprof")}
# Why a graph is empty. flamegraph.pl refuses such a graph, and viewers show nothing.
_EMPTY = {
    "live": "no selected allocation was live then, so the graph is empty",
    "allocated": "the range has no selected allocation, so the graph is empty",
}
BINARY = ("perfetto", "pprof")
_GRAPH = {"live": "what held memory", "allocated": "who allocated"}


def export(asked: Export) -> int:
    """Write the view. Return the exit code. Raises UsageError, OSError."""
    check_one_file(asked.files, asked.output, asked.fmt)
    compressed = is_compressed(asked.fmt, asked.output)
    binary = compressed or asked.fmt in BINARY
    check_output(asked.output, force=asked.force, binary=binary, read=asked.files)
    render = _RENDER[asked.fmt](asked)

    def work() -> Rendered:
        with opened(asked.files[0], asked.reading) as snapshot:
            return render(snapshot)

    found, exit_code = attempt(asked.files[0], work)
    if found is not None:
        parts, notes, (what, number, noun) = found
        with byte_output(asked.output) as out:
            _write(parts, out, compressed)
        say_file(asked, what, number, noun)
        for note in notes:
            say(note)
    return exit_code


def is_compressed(fmt: str, output: str | None) -> bool:
    """Return whether to gzip the file, which depends on its name or format."""
    name = (output or "").lower()
    if name.endswith(".gz"):
        return True
    plain = _COMPRESSED.get(fmt)
    return plain is not None and not name.endswith(plain)


def _write(parts: Iterator[bytes], out: IO[bytes], compressed: bool) -> None:
    if not compressed:
        for part in parts:
            out.write(part)
        return
    # Omit the name and time, so that the output is deterministic.
    with gzip.GzipFile("", "wb", 6, out, mtime=0) as packed:
        for part in parts:
            packed.write(part)


def _notes(
    report: StacksReport | TraceReport | CategoryEvents, notes: tuple[str, ...]
) -> tuple[str, ...]:
    cut = (CUT_OFF,) if report.truncated else ()
    return (*notes, *cut)


def _one_measure(asked: Export) -> MeasureName:
    names: tuple[MeasureName, ...] = asked.options.measures or ("requested",)
    if len(names) > 1:
        raise UsageError(f"{asked.fmt} holds one measure; give one --measure")
    return names[0]


def _stacks(asked: Export) -> Render:
    measure = _one_measure(asked)
    if asked.options.what == "allocated" and asked.options.at is not None:
        raise UsageError("--what allocated covers all events; leave out --at")

    def render(snapshot: Snapshot) -> Rendered:
        from memreplay.export.viewers.weighted import stacks_report

        report = stacks_report(
            snapshot,
            replace(asked.selection, measure=measure),
            what=asked.options.what or "live",
            when=asked.options.at,
            all_frames=asked.options.all_frames,
        )
        empty = () if any(device.stacks for device in report.devices) else (_EMPTY[report.what],)
        stacks = sum(len(device.stacks) for device in report.devices)
        notes = _notes(report, (*report.missing, *empty))
        return _rendered(asked.fmt, report), notes, (_GRAPH[report.what], stacks, "stack")

    return render


def _rendered(fmt: str, report: StacksReport) -> Iterator[bytes]:
    if fmt == "collapsed":
        from memreplay.export.viewers.collapsed import render_collapsed

        return render_collapsed(report)
    if fmt == "pprof":
        from memreplay.export.viewers.pprof import render_pprof

        return render_pprof(report)
    from memreplay.export.viewers.speedscope import render_speedscope

    return iter((render_speedscope(report),))


def _trace(asked: Export) -> Render:
    def render(snapshot: Snapshot) -> Rendered:
        from memreplay.export.viewers.tracks import POINTS, TraceOptions, trace_report

        report = trace_report(
            snapshot,
            asked.selection,
            TraceOptions(
                measures=asked.options.measures or None,
                points=POINTS if asked.options.points is None else asked.options.points,
                stacks=asked.fmt == "perfetto",
                when=asked.options.at,
                all_frames=asked.options.all_frames,
            ),
        )
        notes = _notes(report, report.notes)
        counters = sum(len(device.tracks) for device in report.devices)
        about = ("memory over time", counters, "counter")
        if asked.fmt == "perfetto":
            from memreplay.export.viewers.perfetto import render_perfetto

            return render_perfetto(report), notes, about
        from memreplay.export.viewers.chrome_trace import render_chrome

        return render_chrome(report), notes, about

    return render


def _memory_timeline(asked: Export) -> Render:
    measure = _one_measure(asked)
    rules = asked.reading.config.rules()
    name = (asked.output or "").lower()
    raw = name.endswith((".raw.json", ".raw.json.gz"))
    page = name.removesuffix(".gz").endswith(PAGES)
    if page:
        if name.endswith(".gz"):
            raise UsageError(
                f"{asked.output}: browsers can't open a compressed page; end the name in .html"
            )
        check_plot()

    def render(snapshot: Snapshot) -> Rendered:
        from memreplay.export.viewers.memory_timeline import render_coalesced, render_raw
        from memreplay.export.viewers.torch_categories import category_events

        selection = replace(asked.selection, measure=measure, rules=rules)
        report = category_events(snapshot, selection)
        known = "recorded" if report.recorded else "guessed"
        about = (
            f"{'raw ' if raw else ''}bytes by {known} category over time",
            len(report.bytes) + len(report.carried_over_bytes),
            "change",
        )
        if page:
            from memreplay.export.viewers.memory_picture import render_page

            return render_page(report), _notes(report, report.notes), about
        rendered = (render_raw if raw else render_coalesced)(report)
        return rendered, _notes(report, report.notes), about

    return render


_RENDER: dict[str, Callable[[Export], Render]] = {
    "perfetto": _trace,
    "chrome": _trace,
    "speedscope": _stacks,
    "collapsed": _stacks,
    "pprof": _stacks,
    "memory-timeline": _memory_timeline,
}
