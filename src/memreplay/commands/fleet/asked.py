"""What is asked of a fleet: which files, of which ranks, and who reads them."""

from __future__ import annotations

from msgspec import Struct


class Fleet(Struct, frozen=True):
    """Folders, patterns and files; on processes of this machine, or on a cluster."""

    sources: tuple[str, ...]
    rank_pattern: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    memory_bytes: int | None = None
    totals: tuple[int, ...] = ()
    against: tuple[str, ...] = ()
    output: str | None = None
    tables: str | None = None
    force: bool = False
