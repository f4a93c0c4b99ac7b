"""Options of all commands that record a program."""

from __future__ import annotations

from typing import Annotated, Literal

from memreplay.declared import Opt, Options


class RecordingOptions(Options, frozen=True):
    """Options for which frames to record, how many events, and what else to store."""

    stacks: Annotated[
        Literal["auto", "python", "all"],
        Opt(
            "Which frames to record: auto, python or all. C++ frames (all) name operators and the"
            " backward pass; auto records them if that's cheap.",
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
            "Store your source lines that appear in stacks in the snapshot, so that reports can"
            " show them. Anyone with the file can read them.",
            brief="Store your source lines in the snapshot.",
        ),
    ] = False
    holders: Annotated[
        bool,
        Opt(
            "Store which Python objects keep the memory alive: variables, modules, autograd graphs."
            " Takes up to two seconds per snapshot.",
            brief="Store which Python objects keep the memory alive.",
        ),
    ] = False
