"""What the names of snapshots say that well-known trainers write: rank, step, out of memory.

One table, `LAYOUTS`. Each row was read off the trainer's own source; a name that fits none of them
is read by its words (`rank3`, `step_20`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memreplay.io.names import bare


class Layout(NamedTuple):
    """How one trainer names its dumps.

    `path` is found at the end of a path without what says the form. Its groups: `rank`; `step` and
    `late`, which is something if the dump was made after that step's own one; `time`, digits that
    grow; `first` or `last`, by which dumps without a number are in order.
    """

    of: str
    path: re.Pattern[str]


# When a dump was made: how it is counted (two are in order only if that is the same), and which.
Moment = tuple[str, tuple[int, ...]]


class Told(NamedTuple):
    """What a name tells by its layout; `before` are the folders that aren't part of that."""

    rank: int
    moment: Moment | None
    before: str


def _layout(of: str, path: str) -> Layout:
    return Layout(of, re.compile(rf"(?:^|/)(?:{path})\Z"))


LAYOUTS = (
    _layout(
        "torchtitan until 2025",
        r"iteration_(?P<step>\d+)(?P<late>_exit)?/(?:[^/]+/)?rank(?P<rank>\d+)_memory_snapshot",
    ),
    _layout(
        "torchtitan",
        r"(?:step_\d+(?P<late>_exit)?/(?:[^/]+/)?)?(?P<rank>\d{6,})_step_(?P<step>\d+)",
    ),
    _layout("verl", r"steps?(?:\d+-)?(?P<step>\d+)/[^/]*_rank(?P<rank>\d+)_pid\d+"),
    _layout("verl, without a step", r"(?P<time>\d{8}-\d{4})/[^/]*_rank(?P<rank>\d+)_pid\d+"),
    _layout(
        "verl, out of memory",
        r"oom_(?P<time>\d{8}-\d{6}-\d{6})/torch_memory_oom_rank(?P<rank>\d+)_pid\d+",
    ),
    _layout("NeMo", r"memory_snapshot-rank(?P<rank>\d+)_iter(?P<step>\d+)"),
    _layout("NeMo, at the end", r"(?P<last>memory_snapshot)-rank(?P<rank>\d+)"),
    _layout("lmms-engine", r"(?P<first>snapshot_stop_step)_rank(?P<rank>\d+)(?:_[^/]*)?"),
    _layout(
        "lmms-engine, at the end", r"(?P<last>snapshot_train_end)_rank(?P<rank>\d+)(?:_[^/]*)?"
    ),
    _layout("lmms-engine, out of memory", r"oom_rank(?P<rank>\d+)(?:_[^/]*)?"),
    _layout("Megatron-LM, out of memory", r"oom_rank-(?P<rank>\d+)_[^/]+"),
    _layout("Megatron-LM and -Bridge, out of memory", r"[^/]+_oom_rank[-_](?P<rank>\d+)"),
    _layout("Megatron-LM", r"snapshot_rank-(?P<rank>\d+)"),
    _layout(
        "slime and miles", r"memory_snapshot_time(?P<time>\d+\.\d+)_rank(?P<rank>\d+)(?:_[^/]*)?"
    ),
    _layout("prime-rl", r"step_(?P<step>\d+)/rank_(?P<rank>\d+)"),
    _layout("AReaL", r"step_(?P<step>\d+)/snapshot_rank(?P<rank>\d+)_p\d+d\d+c\d+t\d+"),
    _layout("Composer", r"rank(?P<rank>\d+)\.(?P<step>\d+)\.memory_snapshot"),
    _layout("Composer, out of memory", r"rank(?P<rank>\d+)\.oom_snapshot"),
    _layout("TorchTNT", r"(?:memory_snapshot|oom)_rank(?P<rank>\d+)/snapshot"),
)

# Megatron-Bridge's other dump is `snapshot_3` beside `snapshot_oom_rank-3`; by itself that number
# could be a step.
_BESIDE = re.compile(r"(?P<stem>.+)_oom_rank[-_]\d+\Z")
_NUMBERED = re.compile(r"(?P<stem>.+)_(?P<rank>\d+)\Z")
# Words for names that no layout has.
_STEP = re.compile(
    r"(?<![a-z])(?:global[-_]?)?(?:iteration|iter|step|epoch)s?[-_. =]*(\d+)([-_](?:exit|oom))?",
    re.IGNORECASE,
)
_MOST_DIGITS = 9  # of a rank: what has more is a time or an id
_STAMP = 20  # digits that a time is filled up to
_END = 1 << 63  # a step that is after all others


def told_by(name: str) -> Told | None:
    """What a snapshot's path tells by the layout that it fits; None if it fits none."""
    plain = bare(name)
    for layout in LAYOUTS:
        found = layout.path.search(plain)
        if found is not None and len(found["rank"]) <= _MOST_DIGITS:
            before = plain[: found.start()]
            return Told(int(found["rank"]), _moment(found.groupdict()), before)
    return None


def rank_beside(name: str, others: frozenset[str]) -> int | None:
    """The rank of a name that tells it only together with another one: `snapshot_3` with
    `snapshot_oom_rank-3`, of whose kind `others` are the stems (`stems_of`)."""
    found = _NUMBERED.match(bare(name))
    if found is None or found["stem"] not in others or len(found["rank"]) > _MOST_DIGITS:
        return None
    return int(found["rank"])


def stems_of(names: Iterable[str]) -> frozenset[str]:
    """What `rank_beside` asks for."""
    found = (_BESIDE.match(bare(name)) for name in names)
    return frozenset(one["stem"] for one in found if one is not None)


def moment_of(name: str) -> Moment | None:
    """When a dump was made, as its name tells by its layout or by its words."""
    told = told_by(name)
    if told is not None and told.moment is not None:
        return told.moment
    steps = _STEP.findall(bare(name))
    if not steps or any(len(digits) > _STAMP for digits, _ in steps):
        return None
    counted = "step" * len(steps)  # an epoch and a step aren't in order with a step
    return counted, tuple(n for digits, late in steps for n in (int(digits), int(bool(late))))


def process_of(name: str) -> str | None:
    """What the dumps of one process have in common whose names say no rank: all but their steps.
    None for a name that says no step."""
    plain = bare(name)
    return _STEP.sub("#", plain) if _STEP.search(plain) else None


def says_moment(part: str) -> bool:
    """Whether a part of a path, between two slashes, is of a step or a time."""
    return bool(_STEP.search(part) or re.search(r"(?<!\d)\d{8}-\d{4}", part))


def _moment(groups: dict[str, str | None]) -> Moment | None:
    if groups.get("step"):
        step = int(str(groups["step"])[:_STAMP])
        return "step", (step, int(bool(groups.get("late"))))
    if groups.get("time"):
        digits = re.sub(r"\D", "", str(groups["time"]))[:_STAMP]
        return "time", (int(digits.ljust(_STAMP, "0")),)
    if groups.get("last"):
        return "step", (_END, 0)
    if groups.get("first"):
        return "step", (-1, 0)
    return None
