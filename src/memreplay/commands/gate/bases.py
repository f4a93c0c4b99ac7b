"""What growth is measured against: the base of each file, the last one kept for the next file."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.base import opened_base
from memreplay.commands.shared.errors import untold

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.commands.shared.progress import Showing
    from memreplay.commands.shared.source import Reading


class Bases:
    """Opens bases, of which one is open at a time: most often all files share it, else each has its
    own."""

    def __init__(
        self, reading: Reading, rules: tuple[Rule, ...] | None, showing: Showing, *, strict: bool
    ) -> None:
        self.reading = reading
        self.rules = rules
        self.showing = showing
        self.strict = strict
        self._until = ExitStack()
        self._last: tuple[str, tuple[ComparedSide | None, int, str]] | None = None

    def of(self, name: str) -> tuple[ComparedSide | None, int, str]:
        """The side of a base; None, an exit code and words where it cannot be read."""
        if self._last is None or self._last[0] != name:
            self.close()
            self._last = name, untold(partial(self._opened, name))
        return self._last[1]

    def close(self) -> None:
        """Let go of the last one."""
        self._last = None
        self._until.close()

    def _opened(self, name: str) -> ComparedSide:
        from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide

        found = opened_base(name, self.reading, self._until, self.showing)
        if isinstance(found, BaselineSide):
            return found
        return SnapshotSide(found, rules=self.rules, strict=self.strict)
