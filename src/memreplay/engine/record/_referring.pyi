"""Find the objects that refer to others, as the garbage collector sees them."""

from collections.abc import Iterable

from typing_extensions import Self, disjoint_base

@disjoint_base
class Referrers:
    """A growing list of objects, who refers to them, and their shortest ways to variables.

    Holds one reference to each of its objects. Nothing here runs the program's code.

    Parameters
    ----------
    local_values, other_values : iterable of int
        The ids of variables' values: of functions' variables, whose ways come first, and of others.
    """

    def __new__(
        cls, local_values: Iterable[int] = (), other_values: Iterable[int] = ()
    ) -> Self: ...
    @property
    def objects(self) -> list[object]: ...
    def add(self, one: object) -> int:
        """Add an object, and return its index."""

    def widen(self, first: int, ignored: set[int], until: float = ...) -> bool:
        """Find all tracked objects that refer to one of the objects from index `first` on that no
        variable leads to yet. Add them and their references, and connect them.

        Returns False if variables lead to all of these objects. `ignored`: ids of objects that
        don't count as referrers. `until`: when to stop (time.monotonic()).
        """

    def referrers(self, at: int) -> list[int]:
        """Return the objects that refer to this one, once for each reference."""

    def connect(self) -> None:
        """Find the objects that are variables' values, and those that they lead to."""

    def parent(self, at: int) -> int:
        """Return the next object on the way to a variable; -1 at its end, and without a way."""

    def root(self, at: int) -> int:
        """Return the variable's value that leads to this object; -1 if none does."""

    def name(self, at: int, number: int, with_neighbours: bool) -> None:
        """Note a number for what holds an object, and for all objects that its parent refers to."""

    def named(self, at: int) -> int:
        """Return the number of what holds an object; -1 if that isn't known."""
