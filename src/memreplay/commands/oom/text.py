"""Format out-of-memory events as text."""

from __future__ import annotations

from memreplay.analysis.groups.ways import is_of_parts
from memreplay.analysis.selecting.choice import NO_RESERVED
from memreplay.analysis.trust.trust import NOT_RECORDED
from memreplay.commands.oom.result import Cause, DeviceOoms, LastState, Oom, OomReport, Remedy
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
from memreplay.render.holders import coded_row, holder_tables
from memreplay.render.kinds import kinds_text
from memreplay.render.mapped import ALONE, Rest, blockers_table, elapsed, part_text
from memreplay.render.places import file_word
from memreplay.render.reasons import notes_of, reason_notes
from memreplay.render.recorded_holders import holder_blocks
from memreplay.render.recorded_memory import card_blocks
from memreplay.render.trust import seen_text, trust_label
from memreplay.render.units import count, counted, known_size, percent, size, time_utc
from memreplay.snapshot.backends import for_backend
from memreplay.snapshot.model import By

LISTED = 20  # maximum number of failed requests to list before the details

CAUSES: dict[Cause, str] = {
    "request_too_large": "The request is larger than {all}. Freeing everything wouldn't be enough.",
    "fragmentation": "Enough was free in the right pool and stream, but only in blocks too small"
    " for this request.",
    "other_stream": "Enough was free, but on other streams, whose blocks this request can't use.",
    "other_pool": "Enough was free, but in other pools, whose blocks this request can't use.",
    "split_limit": "A free block was large enough, but max_split_size keeps it for larger"
    " requests.",
    "pending_frees": "Enough was freed, but another stream wasn't done with it in time.",
    "capacity": "The card is full, not fragmented.",
    "other_processes": "Other processes were using the card. Without them the request would have"
    " fit.",
    "process_limit": "The device had enough free memory, but a process limit (such as"
    " set_per_process_memory_fraction) or the driver refused the request.",
}
# For causes where only cached and driver memory together would be enough.
_TOGETHER: dict[Cause, str] = {
    "fragmentation": "in blocks too small for this request.",
    "other_stream": "on other streams, whose blocks this request can't use.",
    "other_pool": "in other pools, whose blocks this request can't use.",
}
_PARTS = {
    "too_small": "right pool and stream, but the blocks are too small",
    "split_limit": "large enough, but kept by max_split_size",
    "other_stream": "on another stream",
    "other_pool": "in another pool",
    "too_late": "would fit now: its free completed while this request was failing",
}
_REMEDIES = {
    "process_limit": "raise or drop torch.cuda.set_per_process_memory_fraction()",
    "empty_cache": "call torch.cuda.empty_cache() first, because no memory is returned while a"
    " graph is captured",
    "expandable_segments": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins free pages",
    "max_split_size": "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N (N above 20) keeps smaller"
    " requests out of larger blocks",
    "pending_frees": "wait for the other stream first, or use record_stream() less",
    "one_stream": "allocate on one stream",
    "private_pools": "let CUDA graphs share a pool; release graphs and MemPools that are done",
    "other_processes": "stop other programs on the card",
    "no_grad": "run this part under torch.no_grad(), because it keeps results for a backward pass"
    " that never runs (model.eval() doesn't change that)",
    "inference_mode": "if you don't need gradients, run this part under torch.inference_mode(); it"
    " keeps results for a backward pass",
}
# For remedies that aren't enough; the bytes follow.
_TOO_LITTLE = {
    "process_limit": "a higher process limit gives",
    "empty_cache": "torch.cuda.empty_cache() frees",
    "expandable_segments": "expandable_segments:True joins free blocks of",
    "max_split_size": "max_split_size_mb keeps free",
    "pending_frees": "waiting for the other stream frees",
    "one_stream": "allocating on one stream makes usable",
    "private_pools": "sharing or releasing pools of CUDA graphs and MemPools frees",
    "other_processes": "stopping other programs frees",
    "no_grad": "torch.no_grad() frees",
    "inference_mode": "torch.inference_mode() frees",
}
_SPLIT_LIMITED = "raise max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF, or drop it"
# If activations hold at least this share, advise to reduce them.
ACTIVATIONS = ("activations", "attention")
ACTIVATIONS_SHARE = 0.40
_ACTIVATIONS = (
    "hold {held}: a smaller batch or, when training, torch.utils.checkpoint reduces them"
    " (memreplay plan finds the cheapest change)"
)
LESS_LIVE = "hold less"
_NAMES_OF_PYTORCH = {
    "empty_cache",
    "expandable_segments",
    "max_split_size",
    "no_grad",
    "inference_mode",
}
NO_OOM = "no out-of-memory event in this {where}"
NOT_SEEN = (
    "only the final state is known: failed requests weren't recorded, and memory may have been"
    " higher before"
)
THE_END = (
    ", but the recording ends near its peak: if the program ran out of memory, it did so there"
)
FREED = "; memory was higher before the end"
# Advice for a failed request that left no event.
NEXT_TIME = (
    "If a request failed, recording was already off, or its event was overwritten; next time,"
    " keep recording on and dump from an out-of-memory observer, which runs before anything is"
    " freed (memreplay help recording)"
)
# If at least this share of the peak is active at the end, a request probably failed there.
AT_PEAK = 0.9
# If more reserved memory is free than segments usually have left over, that memory was in use
# earlier.
CACHED, CACHED_BYTES = 0.1, 64 << 20


def oom_document(report: OomReport, *, all_frames: bool = False) -> Document:
    """Build a list of all failed requests, then the details of one per device (or of all).

    `all_frames`: show full stacks.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not any(device.ooms_total for device in report.devices):
        whole = all(device.events == device.trace_events for device in report.devices)
        ends = [device.end for device in report.devices if device.end is not None]
        # If memory usage was higher earlier, it's unlikely that a request failed at the end.
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
                blocks += _end(device.end, device, report, all_frames)
        if likely:
            blocks.append(Note(NEXT_TIME[0].lower() + NEXT_TIME[1:]))
        for device in report.devices:
            # The missing part of the file may contain a failed request.
            if "truncated" in device.reasons:
                blocks += reason_notes(("truncated",), trusted=device.trusted)
                break
        return (*blocks, *card_blocks(report.card_memory))
    failed = [device for device in report.devices if device.ooms]
    blocks += device_blocks([_section(device, report, all_frames) for device in failed])
    return (*blocks, *card_blocks(report.card_memory), *holder_blocks(report.held_by))


def _end(end: LastState, device: DeviceOoms, report: OomReport, all_frames: bool) -> list[Block]:
    """Format the live set at the end, when a program that runs out of memory writes its dump."""
    of = f" of {size(end.reserved_bytes)}" if end.reserved_bytes else ""
    words = f"device {device.device}: {size(end.active_bytes)}{of} active at the end"
    when = () if end.time_us is None else (elapsed(end.time_us, device.start_us),)
    where = () if not device.events else (f"after event {count(end.event_index)}", *when)
    seen, why = seen_text(device.reasons, device.trace_events)
    if end.peak_bytes is None:
        likely = f"not known: {why}, so the file shows {seen} only"
        if (end.cached_bytes or 0) > max(CACHED * (end.reserved_bytes or 0), CACHED_BYTES):
            likely += (
                f"; memory was probably higher before: {known_size(end.cached_bytes)} is cached"
            )
    elif _is_near_peak(end):
        within = f" in {seen}" if seen else ""
        likely = f"possible: active bytes are close to their peak{within}"
    else:
        likely = (
            f"unlikely: {size(end.peak_bytes)} was active earlier and has been freed since;"
            f" memreplay at {file_word(report.file)} {end.peak_event} shows what held it"
        )
    largest = known_size(end.largest_free_bytes)
    free = f"{known_size(end.cached_bytes)}, largest block {largest}"
    cached = f"{free}; a larger request needs memory from the driver"
    pairs = (
        ("if it failed here", likely),
        ("cached", cached if end.reserved_bytes else "not in the file, like reserved bytes"),
        ("what failed", "not in the file, and neither is the driver's free memory"),
        ("measure", f"active, {trust_label(device)}"),
    )
    kinds = kinds_text(end.categories_source, end.categories, end.active_bytes)
    more = (("categories", kinds),) if kinds else ()
    blocks: list[Block] = [Heading((words, *where)), Pairs((*pairs, *more))]
    if end.groups or end.rest_count:
        blocks += holder_tables(end, end.active_bytes, report.by, all_frames=all_frames)
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
        blocks.append(Note(for_backend(NO_RESERVED, device.backend)))
    blocks += notes_of(device)
    return blocks


def _listed(device: DeviceOoms) -> list[Block]:
    titles = ("oom", "event", "time", "request", "device free", "cached", "active", "cause")
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
                cause_name(one.cause),
            )
        )
        for one in device.ooms[:LISTED]
    )
    found: list[Block] = [Table(titles, (*("right",) * 7, "left"), rows, spare=(2, 6, 4))]
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
    # If the request is larger than the card, segments don't matter.
    if oom.pins and oom.cause != "request_too_large":
        rest = Rest(oom.pins_total - len(oom.pins), oom.pins_rest_bytes, oom.pins_rest_count)
        code = "stack" if is_of_parts(by) else by
        blocks.append(blockers_table(oom.pins, rest, oom.pinned_bytes, code, all_frames=all_frames))
        blocks.append(Note(ALONE))
    return blocks


def _headline(oom: Oom, device: DeviceOoms) -> tuple[str, ...]:
    which = f" (oom {count(oom.number)})" if device.ooms_total > 1 else ""
    event = f"at event {count(oom.event_index)} of {count(device.trace_events)}"
    failed = f"{size(oom.request_bytes)} request failed {event}{which}: {cause_name(oom.cause)}"
    words = f"device {device.device}: {failed}"
    if oom.time_us is None:
        return (words,)
    return (words, f"{elapsed(oom.time_us, device.start_us)} ({time_utc(oom.time_us)})")


def _pairs(oom: Oom, device: DeviceOoms) -> tuple[tuple[str, str], ...]:
    where = part_text(oom.pool, oom.stream, oom.kind)
    assumed = " (pool assumed: the event doesn't say)" if oom.pool_assumed else ""
    asked = f"{size(oom.request_bytes)}, from the {where}{assumed}"
    driver = f"{size(oom.needed_bytes)} needed; "
    if oom.device_free_bytes is None:
        driver += "free memory unknown"
    else:
        driver += f"{size(oom.device_free_bytes)} free, {size(oom.missing_bytes)} missing"
    live = f"{size(oom.active_bytes)} active in {counted(oom.live_count, 'block')},"
    slack = oom.active_bytes - oom.requested_bytes
    cached = f"{size(oom.cached_bytes)} cached, but unusable for this request"
    pairs = [
        ("why", cause_text(oom)),
        ("request", asked),
        ("driver", driver),
        ("reserved", f"{size(oom.reserved_bytes)}: {live} {cached}"),
    ]
    if slack > 0 or oom.pending_bytes:  # events are missing if it's below 0
        words = [f"{size(slack)} slack"] if slack > 0 else []
        words += [f"{size(oom.pending_bytes)} waiting for streams"] if oom.pending_bytes else []
        pairs.append(("active", "includes " + " and ".join(words)))
    pairs.append(("card", _card(oom, device)))
    pairs.append(("afterwards", _afterwards(oom)))
    pairs.append(("measure", f"active, {trust_label(device)}"))
    kinds = kinds_text(oom.categories_source, oom.categories, oom.active_bytes)
    if kinds:
        pairs.append(("categories", kinds))
    return tuple(pairs)


def cause_name(cause: Cause) -> str:
    """Return a cause's name for a headline or a cell, such as `request too large`."""
    return cause.replace("_", " ")


def cause_text(oom: Oom) -> str:
    """Describe why a request failed."""
    if oom.cause == "request_too_large":
        whole = oom.reserved_bytes + (oom.device_free_bytes or 0)
        there = f"everything this process had or could get ({size(whole)})"
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
    return "nothing more was allocated, so the program's next requests aren't known"


def _events(oom: Oom) -> str:
    return counted(oom.after_events, "more event")


def _card(oom: Oom, device: DeviceOoms) -> str:
    if device.total_memory_bytes is None:
        return "size unknown; give --total-memory 80GiB"
    if device.total_memory_known:
        besides = (
            f"{size(oom.outside_bytes)} used outside PyTorch: CUDA, libraries, other processes"
        )
        return f"{size(device.total_memory_bytes)}, {besides}"
    words = f"at least {size(device.total_memory_bytes)} (its size isn't in the file)"
    if oom.outside_bytes:
        words += f", at least {size(oom.outside_bytes)} used outside PyTorch"
    return f"{words}; --total-memory 80GiB shows what else was on it"


def _asked_by(oom: Oom, all_frames: bool) -> Table:
    row = coded_row((), oom.asked_by, "stack", all_frames=all_frames)
    return Table(("requested at, and its callers",), ("left",), (Row(row.cells, row.below),))


def _cached(oom: Oom) -> Table:
    rows = [
        Row((size(part.bytes), size(part.largest_bytes), _why(part.name, oom)))
        for part in oom.cached
    ]
    if oom.pending_bytes:
        rows.append(Row((size(oom.pending_bytes), "-", "not free yet: waiting for a stream")))
    titles = ("cached", "largest", "why it wasn't used")
    return Table(titles, ("right", "right", "left"), tuple(rows))


def _why(name: str, oom: Oom) -> str:
    if name == "other_kind":
        return f"in the same pool, but for {'large' if oom.kind == 'small' else 'small'} requests"
    return _PARTS[name]


def _remedies(oom: Oom) -> Pairs:
    return Pairs(remedy_rows(oom))


def remedy_rows(oom: Oom) -> tuple[tuple[str, str], ...]:
    """Return what would have helped: names, and sentences."""
    rows = [(remedy_title(one.name), remedy_text(one, oom)) for one in oom.remedies]
    held = sum(one.bytes for one in oom.categories if one.category in ACTIVATIONS)
    if oom.active_bytes and held >= ACTIVATIONS_SHARE * oom.active_bytes:
        part = f"{size(held)} ({percent(held / oom.active_bytes)})"
        rows.append(("activations", _ACTIVATIONS.format(held=part)))
    return tuple(rows)


def _is_limited(oom: Oom) -> bool:
    return any(part.name == "split_limit" for part in oom.cached)


def remedy_title(name: str) -> str:
    """Return a remedy's label: the setting, the function, or two words."""
    if name == "less_live":
        return LESS_LIVE
    return name if name in _NAMES_OF_PYTORCH else name.replace("_", " ")


def remedy_text(one: Remedy, oom: Oom) -> str:
    """Describe what a remedy frees, whether it's enough, and how to apply it."""
    return for_backend(_remedy_text(one, oom), oom.backend)


def _remedy_text(one: Remedy, oom: Oom) -> str:
    if one.name == "less_live":
        return _less_live(one, oom)
    if one.name == "other_processes" and oom.other_bytes is not None:
        how = "" if one.enough else ", which isn't enough by itself"
        return f"stop other programs on the card: they hold {size(one.bytes)}{how}"
    limited = one.name == "max_split_size" and _is_limited(oom)
    words = _SPLIT_LIMITED if limited else _REMEDIES[one.name]
    if not one.is_simulated:
        if not one.enough:
            return f"not enough by itself: {_TOO_LITTLE[one.name]} at most {size(one.bytes)}"
        return f"at most {size(one.bytes)}, may be enough: {words}"
    if not one.settings and not one.enough:
        return "doesn't help: in simulation, this request still fails"
    # Advice to remove a limit doesn't list settings, because the other settings should be kept.
    how = words if limited or not one.settings else f"PYTORCH_CUDA_ALLOC_CONF={one.settings}"
    return f"{how}: in simulation, this request fits{_but(one, oom)}"


def _but(one: Remedy, oom: Oom) -> str:
    """Describe how far the program gets with a setting that lets this request succeed."""
    if oom.step_missing_bytes:
        return f", but the optimizer's step needs at least {size(oom.step_missing_bytes)} more"
    if one.fails_next is not None:
        return f", but the one at event {count(one.fails_next)} fails"
    if not oom.after_allocations:
        return "; the recording ends here, so what comes next isn't known"
    return ", and so do all later ones in the recording"


def _less_live(one: Remedy, oom: Oom) -> str:
    more = oom.missing_bytes if oom.more_bytes is None else oom.more_bytes
    least, largest = size(more), size(one.bytes) if one.bytes else ""
    if oom.missing_bytes > oom.active_bytes:
        live = size(oom.active_bytes)
        gone = size(oom.missing_bytes)
        return f"Freeing all {live} isn't enough: {gone} more is missing. Request less"
    # The device had enough memory, so a limit that isn't in the file must have forbidden it.
    if not oom.missing_bytes:
        words = "how much less isn't known"
        return f"{words}; the largest holder has {largest} active" if largest else words
    words = f"Free {least} more and this request fits"
    if largest:
        words += f". The largest holder has {largest} active"
    if one.is_simulated:
        fits = "fits" if one.enough or oom.step_missing_bytes else "still fails"
        words += f"; without it the request {fits} in simulation"
    if oom.step_missing_bytes:
        least = size(oom.step_missing_bytes)
        return f"{words}. The optimizer's first step needs at least {least} more to finish"
    if oom.to_end_bytes is not None and oom.to_end_bytes > more:
        return f"{words}. The whole recording needs {size(oom.to_end_bytes)} more"
    return words
