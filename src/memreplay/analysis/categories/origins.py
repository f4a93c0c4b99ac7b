"""Where allocations come from, as far as more than their own stacks says it: for categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.code.late import Late
from memreplay.analysis.code.patterns import bits_of_frames
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from memreplay.analysis.code.native import FramesKept
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# What a rule's `origin` is searched in: of each of origins.pxd's numbers.
BEFORE = "before the recording"
NO_PYTHON = "thread without Python"
WEIGHT_CAST = "autocast's cast of a weight"
EITHER_CAST = "autocast's cast of a weight or an activation"
# Of what was there before, as far as `before.py` tells it apart.
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

# autocast_mode.cpp casts arguments in one function, and what it casts to a lower precision are
# those of these operators: the others' it casts to fp32, which no weight that is cached needs.
CAST = Late(r":at::autocast::cached_cast\b", (":at::autocast::cached_cast",))
EXIT = Late(
    r"/torch/amp/autocast_mode\.py:(?:\w+\.)?__exit__$|:at::autocast::clear_cache\b"
    r"|clear_autocast_cache$",
    ("/torch/amp/autocast_mode.py:", ":at::autocast::clear_cache", "clear_autocast_cache"),
)
LOWER = Late(
    r":at::_ops::(?:conv\w{0,64}|linear|matmul|einsum|mm|mv|bmm|addmm|addmv|addr|addbmm|baddbmm|prelu"
    r"|chain_matmul|linalg_vecdot|linalg_multi_dot|(?:_thnn_fused_)?(?:lstm|gru)_cell"
    r"|rnn_(?:tanh|relu)_cell|_?scaled_dot_product_\w{1,64})::",
    (":at::_ops::",),
)

# What the source of a cast may be, by the default category of its stack; else it is not known.
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
    """The origins of one snapshot's allocations; its frames are looked at once.

    `kept` are the frames that count: without those of C++ it is as if only Python's were recorded.
    """

    def __init__(self, snap: Snapshot, kept: FramesKept = "all") -> None:
        self.snap = snap
        patterns: tuple[tuple[int, Late], ...] = (_groups.IS_CAST, CAST), (_groups.IS_EXIT, EXIT)
        marks = bits_of_frames(snap, patterns).tolist()
        if kept != "all":
            from memreplay.analysis.code.native import frames_left_out  # late: few compare

            left_out = frames_left_out(snap.code, kept)
            marks = [0 if out else mark for mark, out in zip(marks, left_out, strict=True)]
        self.casts = any(marks)
        if any(mark & _groups.IS_CAST for mark in marks):  # nobody asks for others' operators
            marks = bits_of_frames(snap, (*patterns, (_groups.IS_LOWER, LOWER))).tolist()
        self.marks = bytes(marks)
        self.only_python = only_python(snap) if kept == "all" else kept == "python"

    def of_stackless(self) -> tuple[str | None, str | None]:
        """The origin of what was recorded without a stack, and of what was there before and has
        none."""
        return NO_PYTHON if self.only_python else None, BEFORE if self.snap.has_events else None

    def keys(
        self, replay: Replay, by_stack: Keys, names: Sequence[str], of_carried: Buffer | None
    ) -> Keys:
        """Groups under the numbers of ORIGINS, where there are casts. `by_stack` are groups by the
        first rule that the stack meets, `names` what its rules are called, `of_carried` what
        `before.py` says of carried blocks."""
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


def only_python(snap: Snapshot) -> bool:
    """Whether there are stacks, and all of them are Python's: none has a function of C++."""
    _, functions = snap.code.names()
    return snap.events_with_stack > 0 and not any(
        "::" in snap.code.string(one) for one in functions
    )
