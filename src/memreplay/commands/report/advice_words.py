"""Says each piece of advice in words, with the number that speaks for it, and what to run next."""

from __future__ import annotations

import shlex

from memreplay.commands.oom.text import remedy_words
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.render.reasons import REASONS
from memreplay.render.units import counted, percent, size
from memreplay.snapshot.model import Frame
from memreplay.texts import clean

SHOWN_ADVICE = 4
# What stands before each: two words at most.
TITLES = {
    "attention_scores": "attention",
    "checkpoint": "activations",
    "expandable_segments": "unused",
    "foreach": "optimizer",
    "inference_mode": "activations",
    "kv_cache": "KV cache",
    "near_full": "card",
    "oom_less_live": "hold less",
    "optimizer_state": "optimizer",
    "record": "recording",
    "record_earlier": "recording",
    "record_stacks": "recording",
    "record_steps": "recording",
    "zero_grad": "gradients",
}
_RECORD = "torch.cuda.memory._record_memory_history"
WORDS = {
    "attention_scores": "softmax results and their gradients hold {held}{at}; if they are"
    " attention scores, torch.nn.functional.scaled_dot_product_attention() does not store them",
    "loss": "the loss and its gradients hold {held}{at}; compute it over chunks of the tokens",
    "foreach": "intermediate results for all parameters at once hold {held}; fused=True makes"
    " none, foreach=False only those of one parameter at a time",
    "checkpoint": "they hold {held}; torch.utils.checkpoint recomputes most of them in the"
    " backward pass, and a smaller batch makes fewer",
    "inference_mode": "they hold {held}, and no backward pass was recorded; if you need no"
    " gradients, run this under torch.inference_mode()",
    "zero_grad": "those of an earlier backward pass hold {held} during a forward pass; call"
    " optimizer.zero_grad(set_to_none=True) before it, unless you accumulate them",
    "optimizer_state": "its state holds {held}; an 8-bit optimizer makes it smaller, FSDP or ZeRO"
    " spread it over ranks",
    "kv_cache": "it holds {held}; limit the length or the number of sequences, or quantize it",
    "expandable_segments": "{bytes} ({part}) of what was reserved was free;"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets requests of any size use it",
    "unused": "{bytes} ({part}) of what was reserved was free, although segments are expandable;"
    " memreplay fragmentation shows what blocks it",
    "near_full": "at most {bytes} of {of} was reserved, so {left} is left",
    "record_earlier": "{held} was allocated before the recording;"
    f" call {_RECORD}() first thing in the program, to see by which code",
    "record_stacks": "none of {events} has a stack, so nothing says which code held the memory;"
    f' call {_RECORD}(stacks="all")',
    "record_steps": "{events} do not show 5 steps, too few to judge leaks by; record more steps",
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
    if one.name.startswith("oom_"):
        return _of_oom(one, device)
    if one.name == "record":
        reason = REASONS.get(one.word)
        return reason.remedy if reason is not None and reason.remedy else one.word
    part = percent(one.bytes / one.of_bytes) if one.of_bytes else "0.0%"
    place = place_words(one.place) if one.place else "one stack"
    return WORDS[one.name].format(
        held=f"{size(one.bytes)} ({part} of the peak)",
        part=part,
        bytes=size(one.bytes),
        of=size(one.of_bytes),
        left=size(max(0, one.of_bytes - one.bytes)),
        at=f" at {place}" if one.place else "",
        place=place,
        steps=counted(one.count, "step"),
        events=counted(one.count, "event"),
    )


def _of_oom(one: Advice, device: DeviceOverview) -> str:
    """As `memreplay oom` says it."""
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    if oom is None:
        return one.word
    if one.word == "less_live":
        least = size(oom.missing_bytes)
        if oom.missing_bytes > oom.active_bytes:
            return f"ask for less: {least} were missing, more than was in use"
        if not oom.missing_bytes:
            return f"how much less is not known; the largest holder then had {size(one.bytes)}"
        return f"{least} less would have been enough; the largest holder then had {size(one.bytes)}"
    remedy = next((each for each in oom.remedies if each.name == one.word), None)
    return one.word if remedy is None else remedy_words(remedy, oom)


def place_words(place: Frame) -> str:
    """`train.py:54`."""
    name = place.file.replace("\\", "/").rpartition("/")[2] or place.function or "?"
    return f"{name}:{place.line}" if place.line else name


def next_commands(device: DeviceOverview, file: str) -> tuple[str, ...]:
    """What to run to see more: what the advice names, then what everybody asks next."""
    # Standard input and bytes have a name in angle brackets.
    name = "FILE" if file.startswith("<") else clean(shlex.quote(file))
    asked = [one.command for one in device.advice[:SHOWN_ADVICE] if one.command]
    asked += ["peak", "timeline --by category" if device.peak.events else "fragmentation"]
    found = []
    for command in dict.fromkeys(asked):
        first, _, rest = command.partition(" ")
        found.append(" ".join(filter(None, ("memreplay", first, name, rest))))
    return tuple(found)
