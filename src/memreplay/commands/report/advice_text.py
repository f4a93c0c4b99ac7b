"""Format advice with the number that supports it, and the commands to run next."""

from __future__ import annotations

from msgspec import Struct

from memreplay.analysis.steps.boundaries import OPTIMIZER_STEP
from memreplay.analysis.trust.trust import NOT_RECORDED
from memreplay.commands.oom.text import AT_PEAK, LESS_LIVE, remedy_text, remedy_title
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.render.places import file_word
from memreplay.render.reasons import remedy_of
from memreplay.render.units import counted, percent, size
from memreplay.snapshot.backends import for_backend
from memreplay.snapshot.model import Frame

SHOWN_ADVICE = 3
SHOWN_COMMANDS = 2
NEARLY_ALL = 0.95  # share of the bytes at which naming one line is enough
RECORDING = "recording"
# Headings of at most two words.
TITLES = {
    "attention_scores": "attention",
    "checkpoint": "activations",
    "expandable_segments": "settings",
    "expandable_segments_no": "settings",
    "foreach": "optimizer",
    "inference_mode": "inference",
    "kv_cache": "KV cache",
    "near_full": "card",
    "no_grad": "evaluation",
    "oom_expandable_segments": "settings",
    "oom_less_live": LESS_LIVE,
    "oom_max_split_size": "settings",
    "optimizer_state": "optimizer",
    "record": RECORDING,
    "record_earlier": RECORDING,
    "record_stacks": RECORDING,
    "zero_grad": "gradients",
}
_RECORD = "torch.cuda.memory._record_memory_history"
WORDS = {
    "attention_scores": "softmax results and tensors of the same size hold {held}{at}. If these are"
    " attention scores, torch.nn.functional.scaled_dot_product_attention() saves about {saved}",
    "loss": "logits, loss and their gradients hold {held}{at}. Compute the loss in 8 chunks of"
    " tokens, each under torch.utils.checkpoint, to save about {saved}",
    "foreach": "temporaries for all parameters at once hold {held}. fused=True needs none and saves"
    " about {saved}; foreach=False needs those of one parameter at a time",
    "checkpoint": "{word} kept for backward hold {held}. torch.utils.checkpoint saves up to"
    " {saved}",
    "inference_mode": "results kept for a backward pass hold {held}{at}, but no backward pass was"
    " recorded. If you need no gradients, torch.inference_mode() saves about {saved}",
    "no_grad": "results kept for a backward pass that never runs hold {held}{at}. Run this part"
    " under torch.no_grad() to save about {saved}; model.eval() doesn't turn gradients off",
    "zero_grad": "gradients of the previous step hold {held} while the next step runs. Unless you"
    " accumulate them, call optimizer.zero_grad(set_to_none=True) right after step() to save"
    " {saved}",
    "optimizer_state": "its state holds {held}. 8-bit state takes about a quarter of 32-bit state"
    " and saves up to {saved}. FSDP and ZeRO shard it over ranks",
    "kv_cache": "it holds {held}. Limit the length or number of sequences, or store 8 bits instead"
    " of 16 to save about {saved}",
    "expandable_segments": "{setting} reserves {about}{saved} less in simulation",
    "near_full": "{bytes} of the {of} that the program can use was reserved at the peak; {left}"
    " was left",
    "record_earlier": "{held} was allocated before the recording;"
    f" call {_RECORD}() first thing in the program to see which code allocated it",
    "record_stacks": "none of {events} has a stack, so the code that held the memory is unknown;"
    f' call {_RECORD}(stacks="all")',
    "leak": "{place} keeps {bytes} more each step, over {steps}; look for a list that keeps"
    " tensors, or a loss kept with its graph (use .item() or .detach())",
    "growth": "memory grows by {bytes} a step over {steps}, but no single stack does; group by file"
    " to narrow it down",
}


def advice_title(one: Advice) -> str:
    """Return a heading for the advice."""
    if one.name.startswith("oom_"):
        return TITLES.get(one.name) or remedy_title(one.word)
    return TITLES.get(one.name) or one.name


def advice_text(one: Advice, device: DeviceOverview) -> str:
    """Return the advice as one sentence, with the number that supports it."""
    return for_backend(_advice_text(one, device), device.backend)


def _advice_text(one: Advice, device: DeviceOverview) -> str:
    if one.name.startswith("oom_"):
        return _of_oom(one, device)
    if one.name == "record":
        return remedy_of(one.word, device.reasons) or one.word
    if one.name == "expandable_segments_no":
        return _no_setting(one)
    part = percent(one.bytes / one.of_bytes) if one.of_bytes else "0.0%"
    place = place_text(one.frame) if one.frame else "one stack"
    return WORDS[one.name].format(
        held=f"{size(one.bytes)} ({part} of the peak)",
        saved=size(one.saved_bytes),
        about=f"{one.word} " if one.word else "",
        word=" and ".join(filter(None, one.word.rsplit(", ", 1))) or "activations",
        setting=one.setting,
        bytes=size(one.bytes),
        of=size(one.of_bytes),
        left=size(max(0, one.of_bytes - one.bytes)),
        at=_at(one),
        place=place,
        steps=counted(one.count, "step"),
        events=counted(one.count, "event"),
    )


def _at(one: Advice) -> str:
    """Return the line of code, with its bytes unless it holds nearly all of the advice's bytes."""
    if one.frame is None:
        return ""
    place = place_text(one.frame)
    if one.frame_bytes >= NEARLY_ALL * one.bytes:
        return f" at {place}"
    return f", {size(one.frame_bytes)} at {place}"


def _no_setting(one: Advice) -> str:
    """Say that expandable segments don't help although much memory is unused."""
    helps = "doesn't help"
    if one.word == "fails":
        found = "the program runs out of memory"
    elif one.bytes > 0:
        helps, found = "hardly helps", f"it reserves only {size(one.bytes)} less"
    elif one.bytes:
        found = f"it reserves {size(-one.bytes)} more"
    else:
        found = "it reserves as much"
    unused = f"peak reserved is {size(one.of_bytes)} above peak active"
    return f"{unused}, but expandable_segments:True {helps}: in simulation, {found}"


def _of_oom(one: Advice, device: DeviceOverview) -> str:
    """Return the remedy's text from `memreplay oom`."""
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    remedy = next((each for each in oom.remedies if each.name == one.word), None) if oom else None
    if remedy is None or oom is None:
        return one.word
    words = remedy_text(remedy, oom)
    # In the report of `oom`, the remedy's name comes first. Here, "doesn't help" needs a subject.
    return f"{remedy_title(remedy.name)} {words}" if words.startswith("doesn't") else words


def place_text(place: Frame) -> str:
    """Return text such as `train.py:54`."""
    name = place.file.replace("\\", "/").rpartition("/")[2] or place.function or "?"
    return f"{name}:{place.line}" if place.line else name


class NextCommand(Struct, frozen=True):
    """A command to run next, and what it shows."""

    command: str
    reason: str


# What each command shows.
_SHOWS = {
    "oom": "why it failed and what would help",
    "leaks": "the code that keeps more each step",
    "plan": "the cheapest change that makes it fit",
    "simulate": "what this setting changes",
    "fragmentation": "what keeps unused memory reserved",
    "peak": "which modules hold the activations",
    "summary": "what the recording lacks",
}


def next_commands(device: DeviceOverview, file: str) -> tuple[NextCommand, ...]:
    """Return two commands to run on this file. Commands for a failed request or the advice come
    before the usual ones.
    """
    peak = device.peak
    asked = [
        (one.command, _SHOWS.get(one.command.partition(" ")[0]))
        for one in device.advice[:SHOWN_ADVICE]
    ]
    wanted = [(command, reason) for command, reason in asked if reason]
    if device.ran_out and device.total_memory_bytes is not None and device.total_memory_known:
        wanted.append((f"plan --fit {_spelled(device.total_memory_bytes)}", _SHOWS["plan"]))
    if device.leaks_judged and device.leaks is not None and device.leaks.unless is not None:
        wanted.append(("leaks", _SHOWS["leaks"]))
    final = bool(NOT_RECORDED.intersection(device.reasons))
    if peak.events and not final and not device.ran_out and ends_high(device):
        wanted.append(("oom", "what held memory at the end"))
    held = "at the end" if final else "at the peak"
    wanted.append(("peak", f"what held memory {held}"))
    if peak.events and not final:
        wanted.append(("timeline --by category", "memory over time, by category"))
    else:
        wanted.append(("fragmentation --map", "the blocks in each segment"))
    name, part = file_word(file), _part_read(device)
    found = []
    for command, reason in dict(reversed(wanted)).items():
        first, _, rest = command.partition(" ")
        words = ("memreplay", first, name, rest, part)
        found.append(NextCommand(" ".join(filter(None, words)), reason))
    return tuple(reversed(found))[:SHOWN_COMMANDS]


def _spelled(size: int) -> str:
    """Return a size as an option's value, without loss."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def _part_read(device: DeviceOverview) -> str:
    """Return the options with which a command reads the same part of the file as the report."""
    peak = device.peak
    options = ["--salvage"] if "truncated" in device.reasons else []
    if peak.events < peak.trace_events:
        if peak.first_event:
            options.append(f"--from {peak.first_event}")
        if peak.first_event + peak.events < peak.trace_events:
            options.append(f"--to {peak.first_event + peak.events}")
    return " ".join(options)


def ends_high(device: DeviceOverview) -> bool:
    """Return whether the recording ends near its peak, as it does after an error that left no
    event.

    After a finished optimizer step, that's usual: the step allocated the optimizer's state. A file
    that is cut off doesn't show the end.
    """
    if "truncated" in device.reasons:
        return False
    return device.peak.end_bytes >= AT_PEAK * device.peak.peak_bytes and not _ends_a_step(device)


def _ends_a_step(device: DeviceOverview) -> bool:
    """Return whether the recording ends with an Optimizer.step annotation."""
    steps = device.steps
    source = None if steps is None else steps.step_source
    if steps is None or source is None or not steps.steps:
        return False
    of_optimizer = (source.found_by, source.name) == ("annotation", OPTIMIZER_STEP)
    return of_optimizer and (steps.after is None or not steps.after.allocation_count)
