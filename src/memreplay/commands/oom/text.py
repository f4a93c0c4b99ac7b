"""Writes out-of-memory events as a document for people."""

from __future__ import annotations

from memreplay.analysis.groups.ways import is_of_parts
from memreplay.analysis.trust.trust import NOT_RECORDED
from memreplay.commands.oom.result import Cause, DeviceOoms, LastState, Oom, OomReport, Remedy
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.holders import coded_row, holder_tables
from memreplay.render.kinds import kinds_words
from memreplay.render.mapped import NO_SEGMENTS, blockers_table, elapsed, part_words
from memreplay.render.reasons import notes_of, reason_notes
from memreplay.render.trust import seen_words, trust_label
from memreplay.render.units import count, counted, size, time_utc
from memreplay.snapshot.backends import spoken
from memreplay.snapshot.model import By

LISTED = 20  # ooms that stand in the list before the one in detail

CAUSES: dict[Cause, str] = {
    "request_too_large": "The request is larger than {all}. Freeing everything wouldn't be enough.",
    "fragmentation": "Enough was free in the right pool and stream, but only in blocks too small"
    " for this request.",
    "other_stream": "Enough was free, but on other streams, whose blocks this request can't use.",
    "other_pool": "Enough was free, but in other pools, whose blocks this request can't use.",
    "split_limit": "A free block was large enough, but max_split_size keeps it for larger"
    " requests.",
    "pending_frees": "Enough was freed, but another stream wasn't done with it in time.",
    "capacity": "The card is full. Fragmentation isn't the cause.",
    "other_processes": "Other processes were using the card. Without them the request would have"
    " fit.",
    "process_limit": "The device had enough free, but a limit of the process (such as"
    " set_per_process_memory_fraction) or the driver refused it.",
}
# Where it was not enough by itself, and would have been with what the driver had.
_TOGETHER: dict[Cause, str] = {
    "fragmentation": "in blocks too small for this request.",
    "other_stream": "on other streams, whose blocks this request can't use.",
    "other_pool": "in other pools, whose blocks this request can't use.",
}
_PARTS = {
    "too_small": "right pool and stream, but the blocks are too small",
    "split_limit": "large enough, but kept by max_split_size",
    "other_stream": "of another stream",
    "other_pool": "of another pool",
    "too_late": "would serve now: its free completed while this request failed",
}
_REMEDIES = {
    "process_limit": "raise or drop torch.cuda.set_per_process_memory_fraction()",
    "empty_cache": "call torch.cuda.empty_cache() first: nothing is given back while a graph is"
    " captured",
    "expandable_segments": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins free pages",
    "max_split_size": "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N (N above 20) keeps smaller"
    " requests out of larger blocks",
    "pending_frees": "wait for the other stream first, or use record_stream() less",
    "one_stream": "allocate on one stream",
    "private_pools": "let CUDA graphs share a pool; release graphs and MemPools that are done",
    "other_processes": "stop what else runs on the card",
    "no_grad": "run this part under torch.no_grad(): it keeps results for a backward pass that"
    " doesn't come (model.eval() doesn't change that)",
}
_SPLIT_LIMITED = "raise max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF, or drop it"
NO_OOM = "no out-of-memory event in this {where}"
NOT_SEEN = (
    "only the final state is known: whether a request failed wasn't recorded, and memory may have"
    " been higher before"
)
THE_END = ", but it ends near its peak: if the program ran out of memory, that was at the end"
FREED = ", and memory had been higher before the end"
# What to do where one failed all the same.
NEXT_TIME = (
    "If a request failed, recording was already off, or its event was overwritten; next time,"
    " keep recording on and dump from an out-of-memory observer, which runs before anything is"
    " freed (memreplay help recording)"
)
# How much of the peak is still active at an end that is likely where the request failed.
AT_PEAK = 0.9
# More of reserved memory than what is left over in segments was in use before.
CACHED, CACHED_BYTES = 0.1, 64 << 20


def oom_document(report: OomReport, *, all_frames: bool = False) -> Document:
    """All failed requests shortly, then one of each device (or all) in detail.

    With `all_frames` whole stacks are shown.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not any(device.ooms_total for device in report.devices):
        whole = all(device.events == device.trace_events for device in report.devices)
        ends = [device.end for device in report.devices if device.end is not None]
        # Where memory had been higher, nobody looks for a failed request at the end.
        likely = [end for end in ends if end.peak_bytes is None or _is_near_peak(end)]
        words = NO_OOM.format(where="file" if whole else "range")
        if all(NOT_RECORDED.intersection(device.reasons) for device in report.devices):
            blocks.append(Note(NOT_SEEN))
        elif ends:
            blocks.append(Note(words + (THE_END if likely else FREED)))
        else:
            blocks.append(Note(f"{words}. {NEXT_TIME}"))
        for device in report.devices:
            if device.end is not None:
                blocks += _end(device.end, device, report.by, all_frames)
        if likely:
            blocks.append(Note(NEXT_TIME[0].lower() + NEXT_TIME[1:]))
        for device in report.devices:
            # What is cut off may have had one.
            if "truncated" in device.reasons:
                blocks += reason_notes(("truncated",), trusted=device.trusted)
                break
        return tuple(blocks)
    for device in report.devices:
        if device.ooms:
            blocks += _section(device, report, all_frames)
    return tuple(blocks)


def _end(end: LastState, device: DeviceOoms, by: By, all_frames: bool) -> list[Block]:
    """Who held what at the end, which is where a program that was out of memory dumped."""
    of = f" of {size(end.reserved_bytes)}" if end.reserved_bytes else ""
    words = f"device {device.device}: {size(end.active_bytes)}{of} active at the end"
    when = () if end.time_us is None else (elapsed(end.time_us, device.start_us),)
    where = () if not device.events else (f"after event {count(end.event_index)}", *when)
    seen, why = seen_words(device.reasons, device.trace_events)
    if end.peak_bytes is None:
        likely = f"not known: {why}, so the file shows {seen} only"
        if end.cached_bytes > max(CACHED * end.reserved_bytes, CACHED_BYTES):
            likely += f"; memory was probably higher before: {size(end.cached_bytes)} is cached"
    elif _is_near_peak(end):
        most = f"that was active in {seen}" if seen else "that was ever active"
        likely = f"likely: close to the most {most}"
    else:
        likely = (
            f"not likely: {size(end.peak_bytes)} was active earlier, and has been freed since;"
            f" memreplay at FILE {end.peak_event} shows who held it"
        )
    free = f"{size(end.cached_bytes)}, the largest block {size(end.largest_free_bytes)}"
    cached = f"{free}: a larger request needs memory from the driver"
    pairs = (
        ("if it failed here", likely),
        ("cached", cached if end.reserved_bytes else "not in the file, nor what was reserved"),
        ("what failed", "not in the file: neither the request nor what the driver had free"),
        ("measure", f"blocks, {trust_label(device)}"),
    )
    kinds = kinds_words(end.categories_source, end.categories, end.active_bytes)
    more = (("kinds", kinds),) if kinds else ()
    blocks: list[Block] = [Heading((words, *where)), Pairs((*pairs, *more))]
    if end.groups or end.rest_count:
        blocks += holder_tables(end, end.active_bytes, by, all_frames=all_frames)
    return [*blocks, *notes_of(device)]


def _is_near_peak(end: LastState) -> bool:
    return end.peak_bytes is not None and end.active_bytes >= AT_PEAK * end.peak_bytes


def _section(device: DeviceOoms, report: OomReport, all_frames: bool) -> list[Block]:
    blocks: list[Block] = []
    if device.ooms_total > 1:
        failed = f"device {device.device}: {counted(device.ooms_total, 'request')} failed"
        blocks += [Heading((failed,)), *_listed(device)]
    chosen = [one for one in device.ooms if report.chosen in (0, one.number)]
    for oom in chosen:
        blocks += _detail(oom, device, report.by, all_frames)
    if any(oom.reserved_bytes == 0 for oom in chosen):
        blocks.append(Note(spoken(NO_SEGMENTS, device.backend)))
    blocks += notes_of(device)
    return blocks


def _listed(device: DeviceOoms) -> list[Block]:
    titles = ("oom", "event", "time", "asked", "device free", "cached", "active", "cause")
    rows = tuple(
        Row(
            (
                count(one.number),
                count(one.event_index),
                elapsed(one.time_us, device.start_us),
                size(one.request_bytes),
                _free(one),
                size(one.cached_bytes),
                size(one.active_bytes),
                one.cause,
            )
        )
        for one in device.ooms[:LISTED]
    )
    found: list[Block] = [Table(titles, (*("right",) * 7, "left"), rows)]
    more = device.ooms_total - len(rows)
    if more:
        found.append(Note(f"{count(more)} more failed (--format json has all)"))
    return found


def _free(oom: Oom) -> str:
    return "?" if oom.device_free_bytes is None else size(oom.device_free_bytes)


def _detail(oom: Oom, device: DeviceOoms, by: By, all_frames: bool) -> list[Block]:
    blocks: list[Block] = [
        Heading(_headline(oom, device)),
        Pairs(_pairs(oom, device)),
        _asked_by(oom, all_frames),
    ]
    if oom.cached or oom.pending_bytes:
        blocks.append(_cached(oom))
    blocks += [Heading(("what would have helped",)), _remedies(oom)]
    if oom.groups or oom.rest_count:
        blocks += holder_tables(oom, oom.active_bytes, by, all_frames=all_frames)
    # Nothing that holds segments matters to a request that no empty card could serve.
    if oom.pins and oom.cause != "request_too_large":
        rest = oom.pins_rest_bytes, oom.pins_rest_count
        more = oom.pins_total - len(oom.pins)
        code = "stack" if is_of_parts(by) else by
        blocks.append(
            blockers_table(oom.pins, more, rest, oom.pinned_bytes, code, all_frames=all_frames)
        )
    return blocks


def _headline(oom: Oom, device: DeviceOoms) -> tuple[str, ...]:
    which = f" (oom {count(oom.number)})" if device.ooms_total > 1 else ""
    event = f"at event {count(oom.event_index)} of {count(device.trace_events)}"
    words = f"device {device.device}: {size(oom.request_bytes)} failed {event}{which}: {oom.cause}"
    if oom.time_us is None:
        return (words,)
    return (words, f"{elapsed(oom.time_us, device.start_us)} ({time_utc(oom.time_us)})")


def _pairs(oom: Oom, device: DeviceOoms) -> tuple[tuple[str, str], ...]:
    where = part_words(oom.pool, oom.stream, oom.kind)
    assumed = " (the pool is assumed: the event does not say)" if oom.pool_assumed else ""
    asked = f"{size(oom.request_bytes)}, from the {where}{assumed}"
    driver = f"{size(oom.needed_bytes)} needed for it; "
    if oom.device_free_bytes is None:
        driver += "how much was free is not known"
    else:
        driver += f"{size(oom.device_free_bytes)} free, {size(oom.missing_bytes)} missing"
    live = f"{size(oom.active_bytes)} active in {counted(oom.live_count, 'block')},"
    slack = oom.active_bytes - oom.requested_bytes
    cached = f"{size(oom.cached_bytes)} cached, but unusable for this request"
    pairs = [
        ("why", cause_words(oom)),
        ("asked", asked),
        ("the driver", driver),
        ("reserved", f"{size(oom.reserved_bytes)}: {live} {cached}"),
    ]
    if slack or oom.pending_bytes:
        words = [f"{size(slack)} slack"] if slack else []
        words += [f"{size(oom.pending_bytes)} waiting for streams"] if oom.pending_bytes else []
        pairs.append(("of active", ", ".join(words)))
    pairs.append(("the card", _card(oom, device)))
    pairs.append(("afterwards", _afterwards(oom)))
    pairs.append(("measure", f"blocks, {trust_label(device)}"))
    kinds = kinds_words(oom.categories_source, oom.categories, oom.active_bytes)
    if kinds:
        pairs.append(("kinds", kinds))
    return tuple(pairs)


def cause_words(oom: Oom) -> str:
    """Why it failed, in words."""
    if oom.cause == "request_too_large":
        whole = oom.reserved_bytes + (oom.device_free_bytes or 0)
        there = f"all that this process had and could get ({size(whole)})"
        if oom.outside_known:
            there = f"the card ({size(whole + oom.outside_bytes)})"
        return CAUSES[oom.cause].format(all=there)
    if oom.cause not in _TOGETHER:
        return CAUSES[oom.cause]
    parts = {part.name: part for part in oom.cached}
    if oom.cause == "fragmentation":
        alone = "too_small" in parts and parts["too_small"].bytes >= oom.request_bytes
    else:
        names = (oom.cause, "other_kind") if oom.cause == "other_pool" else (oom.cause,)
        largest = [part.largest_bytes for name, part in parts.items() if name in names]
        alone = max(largest, default=0) >= oom.request_bytes
    if alone:
        return CAUSES[oom.cause]
    return f"Enough memory was free in total, but mostly {_TOGETHER[oom.cause]}"


def _afterwards(oom: Oom) -> str:
    if oom.after_allocations:
        made = counted(oom.after_allocations, "allocation")
        return f"the program caught the error and went on: {made} in {_events(oom)}"
    return "nothing more was allocated, so what the program would ask for next isn't known"


def _events(oom: Oom) -> str:
    return counted(oom.after_events, "more event")


def _card(oom: Oom, device: DeviceOoms) -> str:
    if device.total_bytes is None:
        return "its size is not known; give --total-memory 80GiB"
    if device.total_known:
        besides = (
            f"{size(oom.outside_bytes)} taken by others: other processes, CUDA itself, libraries"
        )
        return f"{size(device.total_bytes)}, {besides}"
    words = f"at least {size(device.total_bytes)} (its size is not in the file)"
    if oom.outside_bytes:
        words += f", at least {size(oom.outside_bytes)} taken by others"
    return f"{words}; --total-memory 80GiB shows what else was on it"


def _asked_by(oom: Oom, all_frames: bool) -> Table:
    row = coded_row((), oom.asked_by, "stack", all_frames=all_frames)
    return Table(("asked by, and its callers",), ("left",), (Row(row.cells, row.below),))


def _cached(oom: Oom) -> Table:
    rows = [
        Row((size(part.bytes), size(part.largest_bytes), _why(part.name, oom)))
        for part in oom.cached
    ]
    if oom.pending_bytes:
        rows.append(Row((size(oom.pending_bytes), "-", "not free yet: waits for a stream")))
    titles = ("cached", "largest", "why it did not serve")
    return Table(titles, ("right", "right", "left"), tuple(rows))


def _why(name: str, oom: Oom) -> str:
    if name == "other_kind":
        return f"of the same pool, for {'large' if oom.kind == 'small' else 'small'} requests"
    return _PARTS[name]


def _remedies(oom: Oom) -> Pairs:
    return Pairs(tuple((one.name, remedy_words(one, oom)) for one in oom.remedies))


def _is_limited(oom: Oom) -> bool:
    return any(part.name == "split_limit" for part in oom.cached)


def remedy_words(one: Remedy, oom: Oom) -> str:
    """What a remedy would have given, whether that is enough, and how to do it."""
    return spoken(_remedy_words(one, oom), oom.backend)


def _remedy_words(one: Remedy, oom: Oom) -> str:
    if one.name == "less_live":
        return _less_live(one, oom)
    limited = one.name == "max_split_size" and _is_limited(oom)
    words = _SPLIT_LIMITED if limited else _REMEDIES[one.name]
    if not one.simulated:
        enough = "may be enough" if one.enough else "not enough"
        return f"at most {size(one.bytes)}, {enough}: {words}"
    if not one.settings and not one.enough:
        return "doesn't help: as simulated, this request still fails"
    # Of a limit that is dropped the other settings are left.
    how = words if limited or not one.settings else f"PYTORCH_CUDA_ALLOC_CONF={one.settings}"
    return f"{how}: as simulated, this request fits{_but(one, oom)}"


def _but(one: Remedy, oom: Oom) -> str:
    """How far a setting takes the program that serves this request."""
    if oom.step_missing_bytes:
        return f", but the optimizer's step needs at least {size(oom.step_missing_bytes)} more"
    if one.fails_next is not None:
        return f", but the one at event {count(one.fails_next)} fails"
    if not oom.after_allocations:
        return "; the recording ends here, so what comes next isn't known"
    return " and all later ones of the recording do"


def _less_live(one: Remedy, oom: Oom) -> str:
    more = oom.missing_bytes if oom.more_bytes is None else oom.more_bytes
    least, largest = size(more), size(one.bytes)
    if oom.missing_bytes > oom.active_bytes:
        live = size(oom.active_bytes)
        gone = size(oom.missing_bytes)
        return f"Freeing all {live} isn't enough: {gone} more is missing. Ask for less"
    if not oom.missing_bytes:  # the device had it, and a limit that no file names forbade it
        return f"how much less is not known; the largest holder has {largest}"
    words = f"Free {least} more and this request fits. The largest holder has {largest}"
    if one.simulated:
        fits = "fits" if one.enough or oom.step_missing_bytes else "still fails"
        words += f"; without it the request {fits}, as simulated"
    if oom.step_missing_bytes:
        least = size(oom.step_missing_bytes)
        return f"{words}. The optimizer's first step needs at least {least} more to its end"
    if oom.to_end_bytes is not None and oom.to_end_bytes > more:
        return f"{words}. The whole recording needs {size(oom.to_end_bytes)} more"
    return words
