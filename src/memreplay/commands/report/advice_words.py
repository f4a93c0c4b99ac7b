"""Says each piece of advice in words, with the number that speaks for it, and what to run next."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from memreplay.commands.oom.text import AT_PEAK, remedy_words
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.render.reasons import REASONS
from memreplay.render.units import counted, percent, size
from memreplay.snapshot.backends import spoken
from memreplay.snapshot.model import Frame
from memreplay.texts import clean

SHOWN_ADVICE = 3
SHOWN_COMMANDS = 2
RECORDING = "recording"
# What stands before each: two words at most.
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
    "oom_less_live": "hold less",
    "oom_max_split_size": "settings",
    "oom_no_grad": "evaluation",
    "optimizer_state": "optimizer",
    "record": RECORDING,
    "record_earlier": RECORDING,
    "record_stacks": RECORDING,
    "zero_grad": "gradients",
}
_RECORD = "torch.cuda.memory._record_memory_history"
WORDS = {
    "attention_scores": "softmax results and tensors of their size hold {held}{at}. If they are"
    " attention scores, torch.nn.functional.scaled_dot_product_attention() stores none: it saves"
    " about {saved}",
    "loss": "the logits, the loss and their gradients hold {held}{at}. Compute the loss in 8 chunks"
    " of the tokens, each under torch.utils.checkpoint: that saves about {saved}",
    "foreach": "temporaries for all parameters at once hold {held}. fused=True needs none,"
    " foreach=False only those of one parameter: that saves {saved}",
    "checkpoint": "{word} hold {held}. torch.utils.checkpoint recomputes most of them in the"
    " backward pass, and a smaller batch makes fewer: either saves up to {saved}",
    "inference_mode": "{held}{at} is kept for a backward pass, and none was recorded. If you need"
    " no gradients, run this under torch.inference_mode(): it saves about {saved}",
    "no_grad": "{held}{at} is kept for a backward pass that doesn't come. Run this part under"
    " torch.no_grad(); model.eval() doesn't do that: it saves about {saved}",
    "zero_grad": "gradients of the step before hold {held} while the next step runs. Unless you"
    " accumulate them, call optimizer.zero_grad(set_to_none=True) right after step(): it saves"
    " {saved}",
    "optimizer_state": "its state holds {held}. 8-bit state takes about a quarter of 32-bit state:"
    " it saves up to {saved}. FSDP or ZeRO spread it over ranks",
    "kv_cache": "it holds {held}. Limit the length or the number of sequences, or store 8 bits for"
    " 16: that saves about {saved}",
    "expandable_segments": "{setting} reserves {about}{saved} less, as simulated",
    "near_full": "{bytes} of the {of} that the program can have was reserved at the peak; {left}"
    " was left",
    "record_earlier": "{held} was allocated before the recording;"
    f" call {_RECORD}() first thing in the program to see by which code",
    "record_stacks": "none of {events} has a stack, so nothing says which code held the memory;"
    f' call {_RECORD}(stacks="all")',
    "leak": "{place} keeps {bytes} more a step, over {steps}; look for a list that keeps"
    " tensors, or a loss kept with its graph (use .item() or .detach())",
    "growth": "memory grows by {bytes} a step over {steps}, but no stack does by itself; look at it"
    " file by file",
}


def advice_title(one: Advice) -> str:
    """What the advice is about, in a word or two."""
    return TITLES.get(one.name) or one.word or one.name


def advice_words(one: Advice, device: DeviceOverview) -> str:
    """One sentence with its number."""
    return spoken(_advice_words(one, device), device.backend)


def _advice_words(one: Advice, device: DeviceOverview) -> str:
    if one.name.startswith("oom_"):
        return _of_oom(one, device)
    if one.name == "record":
        reason = REASONS.get(one.word)
        return reason.remedy if reason is not None and reason.remedy else one.word
    if one.name == "expandable_segments_no":
        return _no_setting(one)
    part = percent(one.bytes / one.of_bytes) if one.of_bytes else "0.0%"
    place = place_words(one.frame) if one.frame else "one stack"
    return WORDS[one.name].format(
        held=f"{size(one.bytes)} ({part} of the peak)",
        saved=size(one.saved_bytes),
        about=f"{one.word} " if one.word else "",
        word=" and ".join(filter(None, one.word.rsplit(", ", 1))) or "activations",
        setting=one.setting,
        bytes=size(one.bytes),
        of=size(one.of_bytes),
        left=size(max(0, one.of_bytes - one.bytes)),
        at=f" at {place}" if one.frame else "",
        place=place,
        steps=counted(one.count, "step"),
        events=counted(one.count, "event"),
    )


def _no_setting(one: Advice) -> str:
    """That the setting which people try first brings nothing, though much is unused."""
    helps = "doesn't help"
    if one.word == "fails":
        found = "the program runs out of memory"
    elif one.bytes > 0:
        helps, found = "hardly helps", f"it reserves only {size(one.bytes)} less"
    elif one.bytes:
        found = f"it reserves {size(-one.bytes)} more"
    else:
        found = "it reserves as much"
    unused = f"{size(one.of_bytes)} of the reserved memory was never needed"
    return f"{unused}, but expandable_segments:True {helps}: as simulated, {found}"


def _of_oom(one: Advice, device: DeviceOverview) -> str:
    """As `memreplay oom` says it."""
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    remedy = next((each for each in oom.remedies if each.name == one.word), None) if oom else None
    if remedy is None or oom is None:
        return one.word
    words = remedy_words(remedy, oom)
    # Without the name that stands before it there, "doesn't help" has no subject.
    return f"{remedy.name} {words}" if words.startswith("doesn't") else words


def place_words(place: Frame) -> str:
    """`train.py:54`."""
    name = place.file.replace("\\", "/").rpartition("/")[2] or place.function or "?"
    return f"{name}:{place.line}" if place.line else name


class NextCommand(NamedTuple):
    """A command to run next, and what it shows."""

    command: str
    reason: str


# Of the commands that advice names, by their first word.
_SHOWS = {
    "oom": "why it failed, and what would help",
    "leaks": "the code that keeps more each step",
    "simulate": "what the setting changes",
    "peak": "which modules hold the activations",
    "summary": "what is wrong with the recording",
}


def next_commands(device: DeviceOverview, file: str) -> tuple[NextCommand, ...]:
    """The two commands that fit this file: what a failure or the advice asks for, then what
    everybody asks next."""
    peak = device.peak
    asked = [
        (one.command, _SHOWS.get(one.command.partition(" ")[0]))
        for one in device.advice[:SHOWN_ADVICE]
    ]
    wanted = [(command, reason) for command, reason in asked if reason]
    if peak.events and not device.ran_out and ends_high(device):
        wanted.append(("oom", "the end, in case a request failed"))
    wanted.append(("peak", "all that held memory at the peak"))
    if peak.events:
        wanted.append(("timeline --by category", "how memory rose and fell"))
    else:
        wanted.append(("fragmentation --map", "what lies in each segment"))
    # Standard input and bytes have a name in angle brackets.
    name = "FILE" if file.startswith("<") else clean(shlex.quote(file))
    found = []
    for command, reason in dict(reversed(wanted)).items():
        first, _, rest = command.partition(" ")
        found.append(NextCommand(" ".join(filter(None, ("memreplay", first, name, rest))), reason))
    return tuple(reversed(found))[:SHOWN_COMMANDS]


def ends_high(device: DeviceOverview) -> bool:
    """Whether the recording ends close to its peak, as after an error that left no event."""
    return device.peak.end_bytes >= AT_PEAK * device.peak.peak_bytes
