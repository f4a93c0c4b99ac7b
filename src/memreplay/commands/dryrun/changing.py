"""Say what `--change` changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memreplay.commands.dryrun.result import DryChange
from memreplay.errors import UsageError
from memreplay.render.units import count, counted
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.dryrun.changes import Change
    from memreplay.dryrun.launch import Process

_DONE = {
    "checkpoint": ("checkpointed {}", "module"),
    "foreach": ("foreach turned off in {}", "optimizer"),
    "fused": ("fused turned on in {}", "optimizer"),
    "set-to-none": ("set_to_none=True in {}", "call"),
    "autocast-cache": ("its cache turned off in {}", "call"),
}
_NOTHING = {
    "foreach": "no optimizer of the program uses foreach",
    "fused": "no optimizer of the program has a fused kernel that it doesn't use yet",
    "set-to-none": "the program never calls zero_grad(set_to_none=False)",
    "autocast-cache": "the program never uses autocast with its cache",
}
_MOST_NAMES = 3


def changes_of(changes: Sequence[Change], processes: Sequence[Process]) -> tuple[DryChange, ...]:
    """Return what each change changed, in all processes together."""
    found = []
    for change, noted in zip(changes, _noted(changes, processes), strict=True):
        names = _all(noted, "names")
        unused = [one for one in _all(noted, "unused") if one not in names]
        calls = sum(one["calls"] for one in noted)
        found.append(DryChange(change.text, tuple(names), calls, tuple(unused)))
    return tuple(found)


def check_changes(changes: Sequence[Change], processes: Sequence[Process]) -> None:
    """Raise UsageError for a change that changed nothing."""
    for change, noted in zip(changes, _noted(changes, processes), strict=True):
        if why := _why_nothing(change, noted):
            raise UsageError(clean(f"--change {change.text} changed nothing: {why}"))


def change_line(change: DryChange) -> str:
    """Describe the effect of a change in one line."""
    name = change.option.partition("=")[0]
    words, noun = _DONE[name]
    if noun == "call":
        return clean(f"{words.format(counted(change.count, noun))} ({change.option})")
    line = f"{words.format(counted(len(change.names), noun))}: {_names(change.names)}"
    if name == "checkpoint":
        line += f" ({counted(change.count, 'call')})"
    if change.unused_names:
        line += f"; {count(len(change.unused_names))} more didn't run in training"
    return clean(line)


def _noted(changes: Sequence[Change], processes: Sequence[Process]) -> list[list[dict[str, Any]]]:
    """Return what each process noted, for each change."""
    each = [one.facts["changed"] for one in processes if one.facts.get("changed")]
    return [[one[i] for one in each] for i in range(len(changes))]


def _all(noted: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(name for one in noted for name in one.get(key, ())))


def _why_nothing(change: Change, noted: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a change changed nothing; None if it changed something."""
    if change.name != "checkpoint":
        return None if any(one["calls"] for one in noted) else _NOTHING[change.name]
    for pattern in _all(noted, "missing"):
        if all(pattern in one["missing"] for one in noted):
            similar = _all(noted, "similar")
            rest = f"; similar: {', '.join(similar)}" if similar else ""
            return f"no module matches {pattern}{rest}"
    if any(one["calls"] for one in noted):
        return None
    unused = counted(len(_all(noted, "unused")), "module")
    if any(one.get("already") for one in noted):
        return f"it matches {unused}, checkpointed by the program itself"
    if any(one.get("compiled") for one in noted):
        return f"it matches {unused}, part of a compiled one, which can't be changed from outside"
    return f"it matches {unused}, not run in training (with gradients)"


def _names(names: Sequence[str]) -> str:
    """List names, the last one without what it shares with the first: `h.0 … 11`."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    first, last = names[0].split("."), names[-1].split(".")
    same = 0
    while same < min(len(first), len(last)) - 1 and first[same] == last[same]:
        same += 1
    return f"{names[0]} … {'.'.join(last[same:])}"
