"""The registry of grouping keys. To add a key, write a class in the module of similar keys and list
it here.
"""

from __future__ import annotations

from memreplay.analysis.groups.ways.base import Way
from memreplay.analysis.groups.ways.blocks import ByHolder, ByPool, BySize, ByStream
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
    ByHolder,
)
WAYS: dict[str, type[Way]] = {way.name: way for way in _ALL}
"""All keys by name, in display order."""


def ways_of(by: str) -> tuple[str, ...]:
    """Parse `--by` into distinct key names, such as `category,file`. Dashes may replace
    underscores.

    Raises UsageError for an unknown key.
    """
    ways = [way.strip().replace("-", "_") for way in by.split(",")]
    for way in ways:
        if way not in WAYS:
            raise UsageError(f"{way!r} is not one of {', '.join(WAYS)}")
    return tuple(dict.fromkeys(ways))


def is_of_parts(by: str) -> bool:
    """Return whether a key's groups are parts of a device: pools or streams."""
    return by in WAYS and WAYS[by].parts


def noun_of(by: str) -> str:
    """Return the noun for one of a key's groups."""
    return WAYS[by].noun if by in WAYS else Way.noun


def title_of(by: str) -> str:
    """Return the column heading for a key's groups."""
    title = WAYS[by].title if by in WAYS else ""
    return title or by.replace("_", " ").replace(",", ", ")


def requested_title_of(by: str) -> str:
    """Return the column heading for groups of reserved memory by requesting code."""
    return WAYS[by].requested_title or title_of(by)


def pinned_title_of(by: str) -> str:
    """Return the column heading for groups that block free memory."""
    title = WAYS[by].pinned_title if by in WAYS else ""
    return title or f"blocked by {title_of(by)}"
