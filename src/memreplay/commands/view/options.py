"""What of a file was read, as the words of a command line that asks for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.ranges import range_options

if TYPE_CHECKING:
    from memreplay.commands.shared.source import Reading
    from memreplay.snapshot.snapshot import Snapshot


def read_words(snap: Snapshot) -> tuple[str, ...]:
    """The part of the file that was read."""
    words = range_options(snap.range).split()
    if snap.only is not None:
        words += ["--device", str(snap.only)]
    if snap.truncation is not None:
        words += ["--salvage"]
    return tuple(words)


def project_words(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Whose code is the user's."""
    return tuple(word for folder in folders for word in ("--project", folder))


def asked_words(reading: Reading) -> tuple[str, ...]:
    """What else was asked for that a snapshot does not know."""
    config = reading.config
    limits = [word for name, most in reading.limits for word in ("--limit", f"{name}={most}")]
    named = ["--no-config"] if config.no_config else []
    if config.config_file is not None:
        named = ["--config", config.config_file]
    return (*limits, *named, *project_words(config.folders))
