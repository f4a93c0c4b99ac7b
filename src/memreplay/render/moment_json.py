"""The moment that was asked for as JSON, the same in every report that has one."""

from __future__ import annotations

from memreplay.snapshot.model import When


def moment_json(when: When) -> dict[str, object]:
    """Its kind, its number, and of an annotation the name and the edge."""
    return {
        "kind": when.kind,
        "value": when.value,
        "name": when.name,
        "edge": when.edge,
    }
