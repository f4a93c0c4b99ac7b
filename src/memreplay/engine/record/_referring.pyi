"""Find the objects that refer to others, as the garbage collector sees them."""

from typing_extensions import disjoint_base

@disjoint_base
class Referrers:
    """A growing list of objects, and who refers to them.

    Holds one reference to each of its objects. Nothing here runs the program's code.
    """

    @property
    def objects(self) -> list[object]: ...
    def add(self, one: object) -> int:
        """Add an object, and return its index."""

    def widen(self, wanted: list[int], ignored: set[int]) -> list[tuple[int, int]]:
        """Find all tracked objects that refer to some of these (by index), and add them.

        Returns pairs (index of the object, index of its referrer); one for each reference.
        `ignored`: ids of objects that don't count as referrers.
        """
