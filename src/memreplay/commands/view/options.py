"""Return the options with which another command selects the same part of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.render.ranges import range_options

if TYPE_CHECKING:
    from memreplay.commands.shared.source import Reading
    from memreplay.snapshot.snapshot import Snapshot


class Given(NamedTuple):
    """Arguments besides the files."""

    options: tuple[str, ...] | None = None
    """Options that make other commands select the same part, except those that follow from a
    snapshot; None to take the project's folders from the snapshot.
    """
    total_memory: int | None = None
    """The card's memory in bytes."""


NOTHING_GIVEN = Given()


def range_options_of(snap: Snapshot) -> tuple[str, ...]:
    """Return the options for the selected range and device."""
    words = range_options(snap.range).split()
    if snap.only is not None:
        words += ["--device", str(snap.only)]
    if snap.truncation is not None:
        words += ["--salvage"]
    return tuple(words)


def project_options(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options for user code."""
    return tuple(word for folder in folders for word in ("--project", folder))


def given_options(reading: Reading) -> tuple[str, ...]:
    """Return the other given options, which don't follow from a snapshot."""
    config = reading.config
    limits = [word for name, most in reading.limits for word in ("--limit", f"{name}={most}")]
    named = [] if config.config_file is None else ["--config", config.config_file]
    return (*limits, *named, *project_options(config.folders))
