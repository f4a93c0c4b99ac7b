"""Where the steps of a program end."""

from __future__ import annotations

from collections.abc import Callable

from memreplay.engine.record import _tracker


class Steps:
    """A step ends where the program says so; in one that never does, where its first optimizer has
    stepped."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        """When each ended, in microseconds since the epoch."""
        self.told = False
        self.after: Callable[[], None] = lambda: None
        """What is done where one ends."""

    def tell(self) -> None:
        """The program says that one ends here."""
        if not self.told:
            self.told = True
            self.ends.clear()
        self.end()

    def stepped(self) -> None:
        """Its first optimizer has stepped."""
        if not self.told:
            self.end()

    def end(self) -> None:
        self.ends.append(_tracker.now_us())
        _tracker.step()
        self.after()
