"""Compute what each module held, and its peak in each pass, from the live set after each event.
Slow but obviously correct.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests import oracle
from tests.noted import noted_of

BACKWARD = ("backward", "recomputation")
Row = dict[str, int]


def prefixes(module: str) -> list[str | None]:
    """Return a module's parents and the module itself; None means no module."""
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))] if module else [None]


def modules_at(snapshot: Any, device: int, event: int) -> tuple[dict[str | None, Row], int]:
    """Return ({module: {category or "total" or "own": bytes}}, bytes without notes) after an event,
    in requested bytes. The key None means no module.
    """
    rows: dict[str | None, Counter[str]] = {}
    unknown = 0
    for size, kind in _live(snapshot, device, event):
        category, _, module = kind or ("", "", "")
        unknown += 0 if kind else size
        for name in prefixes(module):
            rows.setdefault(name, Counter()).update({category: size, "total": size})
        rows[prefixes(module)[-1]]["own"] += size
    return {name: dict(row) for name, row in rows.items()}, unknown


def peaks(snapshot: Any, device: int) -> dict[tuple[str | None, str], tuple[int, int]]:
    """Return {(module, "forward" or "backward"): (peak bytes, first event after which it's
    reached)}.
    """
    found: dict[tuple[str | None, str], tuple[int, int]] = {}
    for event in range(-1, len(oracle.trace_of(snapshot, device))):
        now: Counter[tuple[str | None, str]] = Counter()
        for size, kind in _live(snapshot, device, event):
            _, phase, module = kind or ("", "", "")
            name = "backward" if phase in BACKWARD else phase
            if name in ("forward", "backward"):
                for prefix in prefixes(module):
                    now[prefix, name] += size
        for key, size in now.items():
            if size > found.get(key, (0, 0))[0]:
                found[key] = size, event
    return found


def _live(snapshot: Any, device: int, event: int) -> list[tuple[int, Any]]:
    """Return the bytes and kind of each allocation in the live set after an event."""
    column, before = noted_of(snapshot, device)
    return [
        (one.size, before.get(one.addr) if one.alloc_index < 0 else column[one.alloc_index])
        for one in oracle.replay(snapshot, device).live_at(event)
    ]
