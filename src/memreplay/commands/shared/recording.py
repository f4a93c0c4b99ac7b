"""What to record of a program: options of all commands that record one."""

from __future__ import annotations

from typing import Annotated, Literal

from memreplay.declared import Opt, Options


class RecordingOptions(Options, frozen=True):
    """Which frames, how many events, and whether the code."""

    stacks: Annotated[
        Literal["auto", "python", "all"],
        Opt(
            "Which frames to record: auto, python or all. C++ frames (all) name operators and the"
            " backward pass; auto records them where that is cheap.",
            "NAME",
            brief="Which frames to record: auto, python or all.",
        ),
    ] = "auto"
    max_entries: Annotated[
        int | None,
        Opt("Keep only the last N events (default: all).", "N", least=1, most=2**62),
    ] = None
    source: Annotated[
        bool,
        Opt(
            "Put the text of your own lines that stacks name into the snapshot, so that reports"
            " show it. Whoever has the file can read it.",
            brief="Put the text of your lines into the snapshot.",
        ),
    ] = False
