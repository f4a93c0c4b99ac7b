"""What to do next about a device's memory: each piece of advice only where a number speaks for it.

docs/report.md lists them with the numbers at which they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.advising import forms
from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.advising.passes import Unneeded, unneeded
from memreplay.analysis.advising.settings import MUCH_SHARE, Tried, expandable_segments
from memreplay.analysis.groups.asking import coder_of
from memreplay.analysis.trust.trust import REMARKS
from memreplay.commands.report.result import Advice
from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.commands.report.result import DeviceOverview
    from memreplay.snapshot.model import Coded, Frame
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_MIB = 1 << 20
# Parts of the peak from which on a thing is worth a word.
SAVED_SHARE, SAVED_BYTES = 0.05, 16 * _MIB  # that code in a cheaper form saves
STATE_SHARE = 0.25  # of optimizer state, a cache, what nobody knows the code of
ACTIVATIONS_SHARE = 0.40
UNUSED_BYTES = 64 * _MIB
FULL_SHARE = 0.90  # of the card
# What is left of optimizer state and of a KV cache in 8 bits, from 32 and 16.
STATE_SAVED, CACHE_SAVED = 0.75, 0.5

ACTIVATIONS = ("activations", "attention")
STATE = ("optimizer state", "optimizer state (likely)")
CACHE = ("KV cache",)
BEFORE = "before the recording"


class Spot(Struct, frozen=True):
    """What some code holds at the peak, and by how much the peak falls without; `code` is the
    stack that holds most of it."""

    held: int = 0
    saved: int = 0
    code: Coded | None = None

    @property
    def place(self) -> Frame | None:
        """The innermost line of the user's own code."""
        return None if self.code is None else place_of(self.code)


class Facts(Struct, frozen=True, kw_only=True):
    """What the parts do not say.

    How many events there are and how many allocate, whether the file has any stack, what was
    reserved before the recording (`began_with`) and what was never needed (`unused`). Whether a
    backward pass may follow what holds the peak (`trains`). What code holds that has a cheaper
    form, by the advice's name; what a setting would save, if it was simulated.
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
    """These of one device; `grouper` is one by category."""
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
    # Autograd's threads may be what has no stack.
    told = lives.recorded or replay.events == replay.tally.with_stack
    passes = unneeded(lives, failed, told=told)
    backward = bool(lives.of("category", *forms.BACKWARD).any())
    found = dict(_forms(device, lives, passes, replay, grouper))
    return replace(
        facts,
        trains=backward or not told or (passes is not None and not passes.ended),
        forms=found,
        # A request that failed has remedies of its own, which are simulated up to it.
        setting=None if device.ran_out else expandable_segments(replay),
    )


def _forms(
    device: DeviceOverview,
    lives: Lives,
    passes: Unneeded | None,
    replay: Replay,
    grouper: Grouper,
) -> Iterator[tuple[str, Spot]]:
    def spot(held: int, saved: int, stack: int | None) -> Spot:
        return Spot(
            held,
            saved,
            None if stack is None else coder_of(grouper, replay.measure("requested"), stack),
        )

    yield "attention_scores", spot(*forms.attention_scores(lives))
    yield "loss", spot(*forms.loss(lives))
    yield "foreach", spot(*forms.foreach(lives))
    yield "zero_grad", spot(*forms.stale_gradients(lives, step_starts(device, replay)))
    if passes is not None:
        name = "no_grad" if passes.trained else "inference_mode"
        yield name, spot(passes.held_bytes, passes.saved_bytes, passes.stack)
    chosen = lives.of("category", *ACTIVATIONS)
    yield "checkpoint", Spot(lives.held(chosen), lives.saved(chosen))
    state = lives.of("category", *STATE)
    yield "optimizer_state", Spot(lives.held(state), lives.saved(state, part=STATE_SAVED))
    cache = lives.of("category", *CACHE)
    yield "kv_cache", Spot(lives.held(cache), lives.saved(cache, part=CACHE_SAVED))


def step_starts(device: DeviceOverview, replay: Replay) -> NDArray[np.int64]:
    """The events at which steps begin, the first of which may follow others; none if no steps are
    known."""
    steps = device.steps
    if steps is None or steps.source is None or steps.source.kind == "whole":
        return np.zeros(0, np.int64)
    starts = [one.first_event - replay.first_event for one in steps.steps]
    return np.array([one for one in starts if 0 <= one < replay.events], np.int64)


def advice_of(device: DeviceOverview, facts: Facts) -> tuple[Advice, ...]:
    """What to do: about a request that failed and about leaks, which end a run, first; then what
    saves most."""
    savings = [*_of_holders(device, facts), *_of_settings(facts)]
    return (
        *_of_oom(device),
        *_of_leaks(device),
        *sorted(savings, key=lambda one: -one.saved_bytes),
        *_of_refused(device),
        *_of_reserved(device),
        *_of_recording(device, facts),
    )


def _of_oom(device: DeviceOverview) -> Iterator[Advice]:
    """What would have helped the first request that failed: the first remedy that is enough, and
    to hold less. `memreplay oom` has what lies between."""
    if device.oom is None or not device.oom.ooms:
        return
    oom = device.oom.ooms[0]
    # What is kept for no backward pass is said with what it saves.
    others = [one for one in oom.remedies if one.name not in ("less_live", "no_grad")]
    chosen = [one for one in others if one.enough][:1]
    chosen += [one for one in oom.remedies if one.name == "less_live"]
    if not any(one.enough for one in chosen) and oom.cause != "request_too_large":
        chosen += [one for one in others if one.settings or not one.simulated][:1]
    for one in chosen:
        yield Advice(
            f"oom_{one.name}",
            bytes=one.bytes,
            of_bytes=oom.missing_bytes,
            word=one.name,
            command="oom",
        )


def _of_refused(device: DeviceOverview) -> Iterator[Advice]:
    """The setting that people try first, if a simulation says that the request fails with it, too,
    although memory was free."""
    oom = device.oom.ooms[0] if device.oom is not None and device.oom.ooms else None
    if oom is None or oom.cause in ("capacity", "request_too_large", "process_limit"):
        return
    for one in oom.remedies:
        if one.name == "expandable_segments" and one.simulated and not one.enough:
            yield Advice(f"oom_{one.name}", bytes=one.bytes, word=one.name, command="oom")


def _of_leaks(device: DeviceOverview) -> Iterator[Advice]:
    leaks = device.leaks
    if leaks is None or not device.leaks_judged or leaks.guessed:
        return
    if leaks.leaks_total and leaks.leaks:
        first = leaks.leaks[0]
        yield Advice(
            "leak",
            bytes=first.bytes_per_step,
            of_bytes=leaks.leak_bytes_per_step,
            count=leaks.steps,
            frame=place_of(first),
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
    of = _by_category(device)
    least = max(SAVED_BYTES, SAVED_SHARE * whole)
    for name in ("attention_scores", "loss", "foreach", "zero_grad", "inference_mode", "no_grad"):
        one = facts.forms.get(name, Spot())
        if one.saved >= least:
            yield _saving(name, one, whole)
    evaluates = facts.forms.get("no_grad", Spot()).saved >= least
    activations = sum(of.get(name, 0) for name in ACTIVATIONS)
    saved = facts.forms.get("checkpoint", Spot()).saved
    trains = facts.trains and not evaluates
    if activations >= ACTIVATIONS_SHARE * whole and saved >= least and trains:
        yield Advice(
            "checkpoint",
            bytes=activations,
            of_bytes=whole,
            saved_bytes=saved,
            word=", ".join(name for name in ACTIVATIONS if of.get(name)),
            command="peak --by module",
        )
    state = facts.forms.get("optimizer_state", Spot())
    likely = of.get(STATE[1], 0)  # was there before the recording
    if state.held + likely >= STATE_SHARE * whole:
        held = Spot(state.held + likely, state.saved + round(STATE_SAVED * likely))
        yield _saving("optimizer_state", held, whole)
    cache = facts.forms.get("kv_cache", Spot())
    if cache.held >= STATE_SHARE * whole:
        yield _saving("kv_cache", cache, whole)


def _saving(name: str, one: Spot, whole: int) -> Advice:
    return Advice(name, bytes=one.held, of_bytes=whole, saved_bytes=one.saved, frame=one.place)


def _of_settings(facts: Facts) -> Iterator[Advice]:
    """The setting, if it saves enough as simulated; if it does not, although much is unused, that
    people need not try it."""
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
    # Blocks from before the recording stay where they are: other segments may have helped.
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
            command=f"simulate --set {tried.settings}",
        )


def _of_reserved(device: DeviceOverview) -> Iterator[Advice]:
    usable = device.usable_bytes
    if (
        device.total_known
        and usable is not None
        and device.reserved_peak_bytes >= FULL_SHARE * usable
        and not device.ran_out
    ):
        yield Advice("near_full", bytes=device.reserved_peak_bytes, of_bytes=usable)


def _of_recording(device: DeviceOverview, facts: Facts) -> Iterator[Advice]:
    """What to record otherwise next time."""
    for reason in device.reasons:
        if reason not in REMARKS:
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
    for one in device.categories.rules if device.categories else ():
        found[one.category] = found.get(one.category, 0) + one.bytes
    return found


def place_of(code: Coded) -> Frame | None:
    """The innermost line of the user's own code; None if it has none."""
    return code.frames[code.user[0]] if code.user else None
