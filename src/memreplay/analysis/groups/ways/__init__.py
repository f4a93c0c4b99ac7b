"""The registry of ways to group: a new one is a class in its family's module, and a line here."""

from __future__ import annotations

from memreplay.analysis.groups.ways.base import Way
from memreplay.analysis.groups.ways.blocks import ByPool, BySize, ByStream
from memreplay.analysis.groups.ways.categories import ByCategory, ByPhase
from memreplay.analysis.groups.ways.code import (
    ByDirectory,
    ByFile,
    ByFunction,
    ByInnermost,
    ByLine,
    ByModule,
    ByStack,
)
from memreplay.analysis.groups.ways.texts import ByAnnotation, ByCompileContext, ByUserMetadata
from memreplay.errors import UsageError

_ALL: tuple[type[Way], ...] = (
    ByStack,
    ByLine,
    ByInnermost,
    ByFunction,
    ByFile,
    ByDirectory,
    ByModule,
    ByCategory,
    ByPhase,
    ByAnnotation,
    ByCompileContext,
    ByUserMetadata,
    ByStream,
    ByPool,
    BySize,
)
WAYS: dict[str, type[Way]] = {way.name: way for way in _ALL}
"""All ways by their names, in the order in which they are listed."""


def ways_of(by: str) -> tuple[str, ...]:
    """Return the names of the ways that `by` names, each once: `category,file`. Dashes are as good
    as underscores, as in names of options.

    Raises UsageError for one that there is not.
    """
    ways = [way.strip().replace("-", "_") for way in by.split(",")]
    for way in ways:
        if way not in WAYS:
            raise UsageError(f"{way!r} is not one of {', '.join(WAYS)}")
    return tuple(dict.fromkeys(ways))


def is_of_parts(by: str) -> bool:
    """Whether groups are parts of a device: pools, or streams."""
    return by in WAYS and WAYS[by].parts


def noun_of(by: str) -> str:
    """Return what one group is called, by one way or several."""
    return WAYS[by].noun if by in WAYS else Way.noun


def title_of(by: str) -> str:
    """Return the heading of a column of groups, by one way or several."""
    title = WAYS[by].title if by in WAYS else ""
    return title or by.replace("_", " ").replace(",", ", ")


def asked_title_of(by: str) -> str:
    """Return the same for reserved memory, by who asked for it."""
    return WAYS[by].asked_title or title_of(by)


def pinned_title_of(by: str) -> str:
    """Return the same for who blocks free memory."""
    title = WAYS[by].pinned_title if by in WAYS else ""
    return title or f"blocked by {title_of(by)}"
