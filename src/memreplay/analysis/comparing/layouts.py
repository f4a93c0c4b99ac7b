"""Parse the rank and step in the names of snapshots written by well-known trainers.

Each row of `LAYOUTS` was taken from the trainer's source. Other names are searched for keywords
(`rank3`, `step_20`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memreplay.io.names import bare


class Layout(NamedTuple):
    """How a trainer names its dumps.

    `path` matches the end of a path without its suffix. Its groups: `rank`; `step`, and `late` for
    a dump written after the step's regular one; `time`, whose digits increase over time; `first` or
    `last`, for dumps without a number.
    """

    of: str
    path: re.Pattern[str]


# A counter's kind and value. Only moments of the same kind are comparable.
Moment = tuple[str, tuple[int, ...]]


class ParsedName(NamedTuple):
    """The rank and step in a name, parsed by its layout. `before`: leading folders that the layout
    doesn't cover.
    """

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

# Megatron-Bridge writes `snapshot_3` next to `snapshot_oom_rank-3`. By itself, the number in
# `snapshot_3` could also be a step.
_BESIDE = re.compile(r"(?P<stem>.+)_oom_rank[-_]\d+\Z")
_NUMBERED = re.compile(r"(?P<stem>.+)_(?P<rank>\d+)\Z")
# Keywords for names that don't follow a known layout.
_STEP = re.compile(
    r"(?<![a-z])(?:global[-_]?)?(?:iteration|iter|step|epoch)s?[-_. =]*(\d+)([-_](?:exit|oom))?",
    re.IGNORECASE,
)
# The windows of memreplay's continuous recordings (recording/continuous.py).
_WINDOW = re.compile(r"\.window-(\d{6,20})(?:-peak|-oom)?(?=\.|\Z)")
# What the recorder adds to the name of a recording's other files (recording/session.py).
_ADDED = re.compile(r"\.(?:oom|signal|now|step)(?:-\d+)?(?=\.|\Z)")
_MOST_DIGITS = 9  # maximum number of digits in a rank; longer numbers are times or ids
_STAMP = 20  # times are padded to this many digits
_END = 1 << 63  # a number that sorts after all steps


def parsed_by_layout(name: str) -> ParsedName | None:
    """Parse a snapshot's path by its layout; None if none matches."""
    plain = bare(name)
    for layout in LAYOUTS:
        found = layout.path.search(plain)
        if found is not None and len(found["rank"]) <= _MOST_DIGITS:
            before = plain[: found.start()]
            return ParsedName(int(found["rank"]), _moment(found.groupdict()), before)
    return None


def rank_by_siblings(name: str, others: frozenset[str]) -> int | None:
    """Return the rank of a file like `snapshot_3`, whose number only counts as a rank if there is a
    `snapshot_oom_rank-3`. `others`: result of `stems_of`.
    """
    found = _NUMBERED.match(bare(name))
    if found is None or found["stem"] not in others or len(found["rank"]) > _MOST_DIGITS:
        return None
    return int(found["rank"])


def stems_of(names: Iterable[str]) -> frozenset[str]:
    """Return the stems for `rank_by_siblings`."""
    found = (_BESIDE.match(bare(name)) for name in names)
    return frozenset(one["stem"] for one in found if one is not None)


def moment_of(name: str) -> Moment | None:
    """Return a dump's moment from its name."""
    told = parsed_by_layout(name)
    if told is not None and told.moment is not None:
        return told.moment
    window = _WINDOW.search(bare(name))
    if window is not None:
        return "window", (int(window[1]),)
    steps = _STEP.findall(bare(name))
    if not steps or any(len(digits) > _STAMP for digits, _ in steps):
        return None
    counted = "step" * len(steps)  # (epoch, step) isn't comparable with a step
    return counted, tuple(n for digits, late in steps for n in (int(digits), int(bool(late))))


def process_of(name: str) -> str | None:
    """Return the part of a name without a rank that is the same for all dumps of one process:
    everything but the step or window, or what memreplay's recorder adds. None if the name has
    none of these.
    """
    plain = bare(name)
    stem = _STEP.sub("#", _ADDED.sub("", _WINDOW.sub("", plain)))
    return stem if stem != plain else None


def names_a_moment(part: str) -> bool:
    """Return whether a path component contains a step, window or time."""
    return bool(
        _WINDOW.search(part) or _STEP.search(part) or re.search(r"(?<!\d)\d{8}-\d{4}", part)
    )


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
