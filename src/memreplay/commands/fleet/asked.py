"""What is asked of a fleet: which files, of which ranks, and who reads them."""

from __future__ import annotations

from msgspec import Struct

from memreplay.commands.shared.executing import Workers


class Fleet(Struct, frozen=True):
    """Folders, patterns and files; on processes of this machine, or on a cluster."""

    sources: tuple[str, ...]
    rank_pattern: str | None = None
    workers: Workers = Workers()
    totals: tuple[int, ...] = ()
    against: tuple[str, ...] = ()
    output: str | None = None
    tables: str | None = None
    force: bool = False
    dump: str | None = None
