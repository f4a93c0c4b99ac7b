"""What to do next about a device's memory: each piece of advice only where a number speaks for it.

docs/report.md lists them with the numbers at which they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.code.operators import outermost_operator
from memreplay.analysis.code.patterns import bits_of_frames, compiled
from memreplay.analysis.trust.trust import REMARKS, UNSEEN
from memreplay.commands.report.result import Advice

if TYPE_CHECKING:
    from memreplay.commands.report.result import DeviceOverview
    from memreplay.snapshot.model import Coded, Frame, Group
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_MIB = 1 << 20
# Parts of the peak from which on a thing is worth a word.
HOLDER_SHARE = 0.10  # of code that has a cheaper form
STATE_SHARE = 0.25  # of optimizer state, a cache, what nobody knows the code of
ACTIVATIONS_SHARE = 0.40
UNUSED_SHARE, UNUSED_BYTES = 0.10, 64 * _MIB  # of what is reserved
FULL_SHARE = 0.90  # of the card

ACTIVATIONS = ("activations", "attention")
GRADIENTS = ("backward", "gradients")
LARGE_STATE = {  # by the advice: categories, told or guessed
    "optimizer_state": ("optimizer state", "optimizer state (likely)"),
    "kv_cache": ("KV cache",),
}
_SOFTMAX = re.compile(r"(?<!log_)softmax", re.IGNORECASE)
_LOSS = re.compile(r"log_softmax|cross_entropy|nll_loss|CrossEntropyLoss", re.IGNORECASE)
# What the optimizers' default kernels compute for all parameters at once, and drop.
_FOREACH = re.compile(r"^_foreach_")


class Facts(Struct, frozen=True):
    """What the parts do not say: how many events were read, how many of them allocate, how many
    have no stack (`alone`), whether the file has any (`stacks`), whether anything of a backward
    pass was recorded, and whether segments are expandable already."""

    events: int
    allocations: int
    alone: int
    stacks: bool
    backward: bool
    expandable: bool


def facts_of(snap: Snapshot, replay: Replay) -> Facts:
    """These of one device."""
    patterns = [
        (1, compiled(rule.frames, rule.name))
        for rule in DEFAULT_RULES
        if rule.name in GRADIENTS and rule.frames is not None
    ]
    return Facts(
        events=replay.events,
        allocations=replay.allocations,
        alone=replay.events - replay.tally.with_stack,
        stacks=snap.code.stacks > 1,
        backward=any(bits_of_frames(snap, patterns)),
        expandable=replay.settings.expandable,
    )


def advice_of(device: DeviceOverview, facts: Facts) -> tuple[Advice, ...]:
    """What to do, the most pressing first."""
    held = sorted(_of_holders(device, facts), key=lambda one: -one.bytes)
    return (
        *_of_oom(device),
        *_of_leaks(device),
        *held,
        *_of_reserved(device, facts),
        *_of_recording(device, facts),
    )


def _of_oom(device: DeviceOverview) -> Iterator[Advice]:
    """What would have helped the first request that failed, of what is enough if anything is: the
    first of it, and the last, which is to hold less. `memreplay oom` has what lies between."""
    if device.oom is None or not device.oom.ooms:
        return
    oom = device.oom.ooms[0]
    enough = [one for one in oom.remedies if one.enough] or list(oom.remedies)
    for one in dict.fromkeys((*enough[:1], *enough[-1:])):
        yield Advice(
            f"oom_{one.name}",
            bytes=one.bytes,
            of_bytes=oom.missing_bytes,
            word=one.name,
            command="oom",
        )


def _of_leaks(device: DeviceOverview) -> Iterator[Advice]:
    leaks = device.leaks
    if leaks is None or not device.leaks_judged:
        return
    if leaks.leaks_total and leaks.leaks:
        first = leaks.leaks[0]
        place = _place(first)
        yield Advice(
            "leak",
            bytes=first.bytes_per_step,
            of_bytes=leaks.leak_bytes_per_step,
            count=leaks.steps,
            place=place,
            command="leaks",
        )
    elif leaks.whole_bytes_per_step:
        yield Advice(
            "growth",
            bytes=leaks.whole_bytes_per_step,
            count=leaks.steps,
            command="leaks --by file",
        )


def _of_holders(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    """What holds much of the peak and has a known way to hold less."""
    peak = device.peak
    whole = peak.peak_bytes
    if not whole or not peak.events:
        return
    costly = (("attention_scores", _SOFTMAX), ("loss", _LOSS), ("foreach", _FOREACH))
    for name, pattern in costly:
        groups = _with_words(peak.groups, pattern)
        held = sum(group.bytes for group in groups)
        if held >= HOLDER_SHARE * whole:
            yield Advice(name, bytes=held, of_bytes=whole, place=_place(groups[0]))
    of = _by_category(device)
    activations = sum(of.get(name, 0) for name in ACTIVATIONS)
    if activations >= ACTIVATIONS_SHARE * whole:
        # Autograd's threads may have no stacks: then nothing says that there is no backward pass.
        forward_only = not facts.backward and not facts.alone and facts.events
        name = "inference_mode" if forward_only else "checkpoint"
        yield Advice(name, bytes=activations, of_bytes=whole, command="peak --by module")
    gradients = sum(of.get(name, 0) for name in GRADIENTS)
    if gradients >= HOLDER_SHARE * whole and device.category in ACTIVATIONS:
        yield Advice("zero_grad", bytes=gradients, of_bytes=whole)
    for name, categories in LARGE_STATE.items():
        held = sum(of.get(category, 0) for category in categories)
        if held >= STATE_SHARE * whole:
            yield Advice(name, bytes=held, of_bytes=whole)


def _of_reserved(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    point, total = device.unused, device.total_bytes
    if (
        point is not None
        and point.unused_bytes >= UNUSED_BYTES
        and point.unused_bytes >= UNUSED_SHARE * point.reserved_bytes
        and not device.ran_out  # then the remedies of the request say it
        and not UNSEEN.intersection(device.reasons)  # a cache that is left, of nobody knows what
    ):
        name = "unused" if facts.expandable else "expandable_segments"
        event = f"fragmentation --at {max(point.event_index, 0)}"
        at = "fragmentation --at start" if point.name == "start" else event
        yield Advice(name, bytes=point.unused_bytes, of_bytes=point.reserved_bytes, command=at)
    if (
        device.total_known
        and total is not None
        and device.reserved_peak_bytes >= FULL_SHARE * total
        and not device.ran_out
    ):
        yield Advice("near_full", bytes=device.reserved_peak_bytes, of_bytes=total)


def _of_recording(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    """What to record otherwise next time."""
    for reason in device.reasons:
        if reason not in REMARKS:
            yield Advice("record", word=reason, command="summary")
    if not facts.allocations:
        return
    peak = device.peak
    if not facts.stacks:
        yield Advice("record_stacks", count=facts.events)
    elif peak.baseline_held_bytes >= STATE_SHARE * max(1, peak.peak_bytes):
        yield Advice("record_earlier", bytes=peak.baseline_held_bytes, of_bytes=peak.peak_bytes)
    if not device.leaks_judged:
        yield Advice("record_steps", count=facts.events)


def _by_category(device: DeviceOverview) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in device.categories.rules if device.categories else ():
        found[one.category] = found.get(one.category, 0) + one.bytes
    return found


def _with_words(groups: Iterable[Group], pattern: re.Pattern[str]) -> list[Group]:
    """The groups in whose operator, or in whose own code, this is found."""
    return [group for group in groups if any(map(pattern.search, _words(group)))]


def _words(group: Group) -> Iterator[str]:
    # Of C++ frames only the operator that the code called says what was computed.
    yield outermost_operator(group.frames)
    yield from (group.frames[i].function for i in group.user[:1])


def _place(group: Coded) -> Frame | None:
    return group.frames[group.user[0]] if group.user else None
