"""Advise on a device's memory. Each piece of advice is supported by a number.

docs/report.md lists the advice and its thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.advising import forms
from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.advising.passes import Unneeded, kept_for_backward, unneeded
from memreplay.analysis.advising.settings import MUCH_SHARE, Tried, expandable_segments
from memreplay.analysis.groups.requesting import requester_of_stack
from memreplay.analysis.trust.trust import EVENTS_LOST_BEFORE, REMARKS
from memreplay.commands.oom.text import ACTIVATIONS, ACTIVATIONS_SHARE
from memreplay.commands.report.result import Advice
from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.commands.report.result import DeviceOverview
    from memreplay.snapshot.model import Coded, Frame
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_MIB = 1 << 20
# Minimum shares of the peak, and minimum bytes, for giving advice.
SAVED_SHARE, SAVED_BYTES = 0.05, 16 * _MIB  # saved by a cheaper alternative to the code
STATE_SHARE = 0.25  # held by optimizer state, a cache, or unknown code
UNUSED_BYTES = 64 * _MIB
FULL_SHARE = 0.90  # of the card
# Share of memory saved by optimizer state with 8 instead of 32 bits, and by a KV cache with 8
# instead of 16 bits.
STATE_SAVED, CACHE_SAVED = 0.75, 0.5

STATE = ("optimizer state", "optimizer state (likely)")
CACHE = ("KV cache",)
BEFORE = "before the recording"


class Spot(Struct, frozen=True):
    """The memory that some code holds at the peak, and how far the peak falls without that memory.
    `there`: bytes of the line that holds the most; `code`: that line's largest stack.
    `categories`: those of the held memory.
    """

    held: int = 0
    saved: int = 0
    code: Coded | None = None
    there: int = 0
    categories: tuple[str, ...] = ()

    @property
    def place(self) -> Frame | None:
        """Innermost line of user code."""
        return None if self.code is None else place_of(self.code)


class Facts(Struct, frozen=True, kw_only=True):
    """Facts that the advice needs but the report's parts lack.

    `began_with`: bytes reserved before the recording. `unused`: peak reserved minus peak active.
    `trains`: whether a backward pass may follow the peak. `forms`: code that has a cheaper
    alternative, by the advice's name. `setting`: the simulated setting; None if none was simulated.
    """

    events: int = 0
    allocations: int = 0
    stacks: bool = True
    began_with: int = 0
    unused: int = 0
    trains: bool = True
    forms: dict[str, Spot] = {}
    setting: Tried | None = None


def facts_of(device: DeviceOverview, snap: Snapshot, replay: Replay, grouper: Grouper) -> Facts:
    """Collect the facts about one device. `grouper`: a grouper by category."""
    facts = Facts(
        events=replay.events,
        allocations=replay.allocations,
        stacks=snap.code.stacks > 1,
        began_with=replay.measure("reserved").start_bytes,
        unused=unused_bytes(replay),
    )
    if not replay.allocations:
        return facts
    lives = Lives(replay, grouper)
    failed = [event - replay.first_event for event in replay.events_of("oom")]
    # Allocations without a stack may be autograd's.
    told = lives.recorded or replay.events == replay.tally.with_stack
    passes = unneeded(lives, failed, told=told)
    backward = lives.of("category", *forms.BACKWARD).any()
    found = dict(_forms(device, lives, passes, replay, grouper))
    found["checkpoint"] = _checkpoint(lives, failed, replay, told=told)
    return replace(
        facts,
        trains=backward or not told or (passes is not None and not passes.ended),
        forms=found,
        # A failed request has its own remedies, which are simulated up to that request.
        setting=None if device.ran_out else expandable_segments(replay),
    )


def _forms(
    device: DeviceOverview,
    lives: Lives,
    passes: Unneeded | None,
    replay: Replay,
    grouper: Grouper,
) -> Iterator[tuple[str, Spot]]:
    def spot(found: forms.Form | Unneeded) -> Spot:
        if found.place is None:
            return Spot(found.held_bytes, found.saved_bytes)
        code = requester_of_stack(grouper, replay.measure("requested"), found.place.stack)
        return Spot(found.held_bytes, found.saved_bytes, code, found.place.bytes)

    yield "attention_scores", spot(forms.attention_scores(lives))
    yield "loss", spot(forms.loss(lives))
    yield "foreach", spot(forms.foreach(lives))
    yield "zero_grad", spot(forms.stale_gradients(lives, step_starts(device, replay)))
    if passes is not None:
        name = "no_grad" if passes.trained else "inference_mode"
        yield name, spot(passes)
    state = lives.of("category", *STATE)
    yield "optimizer_state", Spot(lives.held(state), lives.saved(state, part=STATE_SAVED))
    cache = lives.of("category", *CACHE)
    yield "kv_cache", Spot(lives.held(cache), lives.saved(cache, part=CACHE_SAVED))


def _checkpoint(lives: Lives, failed: list[int], replay: Replay, *, told: bool) -> Spot:
    """Find what recomputing saves. Only activations kept for a backward pass can be recomputed."""
    chosen = lives.of("category", *ACTIVATIONS)
    chosen &= kept_for_backward(lives, failed, told=told)
    sizes = [replay.value("size", event + replay.first_event) for event in failed]
    return Spot(
        lives.held(chosen),
        lives.recomputed(chosen, failed, sizes, replay.recorded.limit_bytes if failed else 0),
        categories=tuple(
            name for name in ACTIVATIONS if lives.held(chosen & lives.of("category", name))
        ),
    )


def step_starts(device: DeviceOverview, replay: Replay) -> list[int]:
    """Return the events at which steps begin; empty if steps are unknown. The first of them isn't
    necessarily the program's first step.
    """
    steps = device.steps
    if steps is None or steps.step_source is None or steps.step_source.is_whole:
        return []
    starts = [one.first_event - replay.first_event for one in steps.steps]
    return [one for one in starts if 0 <= one < replay.events]


def advice_of(device: DeviceOverview, facts: Facts) -> tuple[Advice, ...]:
    """Return the advice: first on failed requests and leaks, which end a run, then by savings."""
    holders = (_as_in_oom(one, device) for one in _of_holders(device, facts))
    savings = [*holders, *_of_settings(facts)]
    return (
        *_of_oom(device),
        *_of_leaks(device),
        *sorted(savings, key=lambda one: -one.saved_bytes),
        *_of_refused(device),
        *_of_reserved(device),
        *_of_recording(device, facts),
    )


def _as_in_oom(one: Advice, device: DeviceOverview) -> Advice:
    """If the peak led to a failed request, and the advice is also one of its remedies, return the
    advice with the remedy's bytes. These are what the request could have used, and they can be more
    than the peak falls by.
    """
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    if oom is None or oom.event_index < device.peak.peak_event:
        return one
    found = [remedy.bytes for remedy in oom.remedies if remedy.name == one.name]
    return replace(one, saved_bytes=found[0]) if found else one


def _of_oom(device: DeviceOverview) -> Iterator[Advice]:
    """Yield the first sufficient remedy for the first failed request, the advice to stop other
    processes if they are known to hold enough, and the advice to hold less memory. `memreplay oom`
    has the other remedies.
    """
    if device.oom is None or not device.oom.ooms:
        return
    oom = device.oom.ooms[0]
    # Memory that is kept without a backward pass is reported separately, with what it would save.
    others = [
        one for one in oom.remedies if one.name not in ("less_live", "no_grad", "inference_mode")
    ]
    chosen = [one for one in others if one.enough][:1]
    if oom.other_bytes is not None:
        theirs = [one for one in others if one.name == "other_processes" and one.enough]
        chosen += [one for one in theirs if one not in chosen]
    chosen += [one for one in oom.remedies if one.name == "less_live"]
    if not any(one.enough for one in chosen) and oom.cause != "request_too_large":
        chosen += [one for one in others if one.settings or not one.is_simulated][:1]
    for one in chosen:
        yield Advice(
            f"oom_{one.name}",
            bytes=one.bytes,
            of_bytes=oom.missing_bytes,
            word=one.name,
            command="oom",
        )


def _of_refused(device: DeviceOverview) -> Iterator[Advice]:
    """If memory was free and a simulation shows that expandable segments don't help, yield that as
    advice, because people try this setting first.
    """
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    if oom is None or oom.cause in ("capacity", "request_too_large", "process_limit"):
        return
    for one in oom.remedies:
        if one.name == "expandable_segments" and one.is_simulated and not one.enough:
            yield Advice(f"oom_{one.name}", bytes=one.bytes, word=one.name, command="oom")


def _of_leaks(device: DeviceOverview) -> Iterator[Advice]:
    leaks = device.leaks
    if leaks is None or not device.leaks_judged or leaks.unless is not None:
        return
    if leaks.leaks_total and leaks.leaks:
        first = leaks.leaks[0]
        yield Advice(
            "leak",
            bytes=first.bytes_per_step,
            of_bytes=leaks.leak_bytes_per_step,
            count=leaks.step_count,
            frame=place_of(first),
            command="leaks",
        )
    elif leaks.whole_bytes_per_step:
        yield Advice(
            "growth",
            bytes=leaks.whole_bytes_per_step,
            count=leaks.step_count,
            command="leaks --by file",
        )


def _of_holders(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    """Yield advice on large holders of memory that can be reduced in a known way."""
    peak = device.peak
    whole = peak.peak_bytes
    if not whole or not peak.events:
        return
    of = _by_category(device)
    least = max(SAVED_BYTES, SAVED_SHARE * whole)
    for name in ("attention_scores", "loss", "foreach", "zero_grad", "inference_mode", "no_grad"):
        one = facts.forms.get(name, Spot())
        if one.saved >= least:
            yield _saving(name, one, whole)
    evaluates = facts.forms.get("no_grad", Spot()).saved >= least
    kept = facts.forms.get("checkpoint", Spot())
    trains = facts.trains and not evaluates
    if kept.held >= ACTIVATIONS_SHARE * whole and kept.saved >= least and trains:
        yield Advice(
            "checkpoint",
            bytes=kept.held,
            of_bytes=whole,
            saved_bytes=kept.saved,
            word=", ".join(kept.categories),
            command="peak --by module",
        )
    state = facts.forms.get("optimizer_state", Spot())
    likely = of.get(STATE[1], 0)  # carried over
    if state.held + likely >= STATE_SHARE * whole:
        held = Spot(state.held + likely, state.saved + round(STATE_SAVED * likely))
        yield _saving("optimizer_state", held, whole)
    cache = facts.forms.get("kv_cache", Spot())
    if cache.held >= STATE_SHARE * whole:
        yield _saving("kv_cache", cache, whole)


def _saving(name: str, one: Spot, whole: int) -> Advice:
    return Advice(
        name,
        bytes=one.held,
        of_bytes=whole,
        saved_bytes=one.saved,
        frame=one.place,
        frame_bytes=one.there if one.place else 0,
    )


def _of_settings(facts: Facts) -> Iterator[Advice]:
    """Yield advice to try a setting that saves enough in a simulation, or else the note that the
    setting doesn't help although much memory is unused.
    """
    tried = facts.setting
    if tried is None:
        return
    if tried.is_worth_it:
        yield Advice(
            "expandable_segments",
            bytes=facts.unused,
            of_bytes=tried.reserved_bytes,
            saved_bytes=tried.saved_bytes,
            word="" if tried.exact else "about",
            setting=f"{tried.variable}={tried.settings}",
            command=f"simulate --set {tried.settings}",
        )
    # Carried-over blocks keep their places in the simulation. In other segments, the setting might
    # have helped.
    elif (
        facts.unused >= max(UNUSED_BYTES, MUCH_SHARE * tried.reserved_bytes)
        and tried.is_useless(facts.unused)
        and not facts.began_with
    ):
        yield Advice(
            "expandable_segments_no",
            bytes=tried.saved_bytes,
            of_bytes=facts.unused,
            word="fails" if tried.fails else "",
            command="fragmentation",
        )


def _of_reserved(device: DeviceOverview) -> Iterator[Advice]:
    usable = device.usable_bytes
    if (
        device.total_memory_known
        and usable is not None
        and (device.reserved_peak_bytes or 0) >= FULL_SHARE * usable
        and not device.ran_out
    ):
        yield Advice("near_full", bytes=device.reserved_peak_bytes or 0, of_bytes=usable)


def _of_recording(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    """Yield advice on what to record differently next time."""
    final = "no_allocations" in device.reasons
    said = REMARKS | EVENTS_LOST_BEFORE if final else REMARKS  # these reasons have the same remedy
    for reason in device.reasons:
        if reason not in said:
            yield Advice("record", word=reason, command="summary")
    if not facts.allocations:
        return
    peak = device.peak
    before = sum(n for name, n in _by_category(device).items() if name.startswith(BEFORE))
    if not facts.stacks:
        yield Advice("record_stacks", count=facts.events)
    elif before >= STATE_SHARE * max(1, peak.peak_bytes):
        yield Advice("record_earlier", bytes=before, of_bytes=peak.peak_bytes)


def _by_category(device: DeviceOverview) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in device.caught.rules if device.caught else ():
        found[one.category] = found.get(one.category, 0) + one.bytes
    return found


def place_of(code: Coded) -> Frame | None:
    """Return the innermost line of user code, or None."""
    return code.frames[code.user[0]] if code.user else None
