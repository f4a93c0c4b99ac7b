"""Determine the origins of allocations for category rules, if an allocation's own stack isn't
enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.code.patterns import regexes
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from memreplay.analysis.code.native import FramesKept
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.code import Code
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# The text that a rule's `origin` is matched against, for each number in origins.pxd.
BEFORE = "before the recording"
NO_PYTHON = "thread without Python"
WEIGHT_CAST = "autocast's cast of a weight"
EITHER_CAST = "autocast's cast of a weight or an activation"
# Carried-over blocks, as classified by `before.py`.
LIKELY_PARAMETER = f"{BEFORE}, likely a parameter"
LIKELY_STATE = f"{BEFORE}, likely optimizer state"
LIKELY_GRADIENT = f"{BEFORE}, likely a gradient"
LIKELY_ACTIVATION = f"{BEFORE}, likely an activation or input"
ORIGINS: tuple[str | None, ...] = (
    None,
    BEFORE,
    NO_PYTHON,
    WEIGHT_CAST,
    EITHER_CAST,
    LIKELY_PARAMETER,
    LIKELY_STATE,
    LIKELY_GRADIENT,
    LIKELY_ACTIVATION,
)

# In autocast_mode.cpp, one function does all casts. These operators cast to lower precision. The
# others cast to fp32, and autocast doesn't cache weights cast to fp32.
CAST = r":at::autocast::cached_cast\b"
EXIT = (
    r"/torch/amp/autocast_mode\.py:(?:\w+\.)?__exit__$|:at::autocast::clear_cache\b"
    r"|clear_autocast_cache$"
)
LOWER = (
    r":at::_ops::(?:conv\w{0,64}|linear|matmul|einsum|mm|mv|bmm|addmm|addmv|addr|addbmm|baddbmm|prelu"
    r"|chain_matmul|linalg_vecdot|linalg_multi_dot|(?:_thnn_fused_)?(?:lstm|gru)_cell"
    r"|rnn_(?:tanh|relu)_cell|_?scaled_dot_product_\w{1,64})::"
)
MARKS = regexes((_groups.IS_CAST, CAST), (_groups.IS_EXIT, EXIT), (_groups.IS_LOWER, LOWER))

# Possible inputs of a cast, by the default category of the cast's stack. If the category isn't
# listed, the input is unknown.
ROLES = {
    "parameters": _groups.A_WEIGHT,
    "buffers": _groups.A_WEIGHT,
    "optimizer state": _groups.NO_SOURCE,
    "backward": _groups.NO_SOURCE,
    "NCCL": _groups.NO_SOURCE,
    "activations": _groups.AN_ACTIVATION,
    "attention": _groups.AN_ACTIVATION,
    "KV cache": _groups.AN_ACTIVATION,
    "compiled code": _groups.AN_ACTIVATION,
    "data loading": _groups.AN_ACTIVATION,
}


class Origins:
    """Origins of one snapshot's allocations. Examines each frame only once.

    `kept`: the kinds of frames to use. Without C++ frames, the results are the same as for a
    recording with only Python frames.
    """

    def __init__(self, snap: Snapshot, kept: FramesKept = "all") -> None:
        self.snap = snap
        marks: list[int] = snap.code.classified.get("casts", lambda: _casts(snap))
        if kept != "all":
            # Imported late: rarely needed
            from memreplay.analysis.code.native import ignored_frames

            left_out = ignored_frames(snap.code, kept)
            marks = [0 if out else mark for mark, out in zip(marks, left_out, strict=True)]
        self.casts = any(mark & (_groups.IS_CAST | _groups.IS_EXIT) for mark in marks)
        self.marks = bytes(marks)
        self.only_python = only_python(snap) if kept == "all" else kept == "python"

    def of_stackless(self) -> tuple[str | None, str | None]:
        """Return two origins of allocations without a stack: of recorded allocations, and of
        carried-over blocks.
        """
        return NO_PYTHON if self.only_python else None, BEFORE if self.snap.has_events else None

    def keys(
        self, replay: Replay, by_stack: Keys, names: Sequence[str], of_carried: Buffer | None
    ) -> Keys:
        """Group allocations by their index in ORIGINS. Only needed if there are casts.

        `by_stack`: groups by the first rule that matches the stack. `names`: the rules' names.
        `of_carried`: what `before.py` returned.
        """
        roles = bytes(ROLES.get(name, _groups.UNSURE) for name in names)
        roles = roles.ljust(_groups.NO_RULE + 1, bytes([_groups.UNSURE]))
        return _groups.origin_keys(
            replay.native,
            self.snap.has_events,
            self.only_python,
            self.marks,
            by_stack,
            roles,
            of_carried,
        )


def _casts(snap: Snapshot) -> list[int]:
    """Return each frame's marks."""
    found: list[int] = memoryview(MARKS.of_frames(snap.native)).tolist()
    return found


def only_python(snap: Snapshot) -> bool:
    """Return whether there are stacks and all of them have only Python frames."""
    found: bool = snap.code.classified.get("only python", lambda: not _has_native(snap.code))
    return snap.events_with_stack > 0 and found


def _has_native(code: Code) -> bool:
    _, functions = code.names()
    return any("::" in code.string(one) for one in functions)
