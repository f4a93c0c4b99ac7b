"""Python interface to columns of integers that support arithmetic, selections and searches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, final, overload

from typing_extensions import Buffer, Never

_Source: TypeAlias = Buffer | Sequence[int]

@final
class Lent:
    """Another object's buffer."""

@final
class Vector(Buffer):
    """A column of integers, in one of the `struct` formats ? B i I q Q.

    Supports the operators of integers, row by row, with vectors of the same length and numbers.
    Comparisons return flags (format "?"), the others 64-bit numbers (format "Q" if an operand has
    it, else "q"), which wrap around. `Q` and signed numbers can't be ordered against each other.

    `v[3]`, `v[1:-1]`, `v[numbers]` and `v[flags]` select rows. Slices share memory. Vectors that
    own their memory can be changed: `v[...] = number or vector`.
    """

    def __init__(self, *args: Never) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def format(self) -> str: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def tolist(self) -> list[int]: ...
    def as_format(self, fmt: str) -> Vector:
        """Return the numbers in another format. Numbers that don't fit are cut off."""

    def copy(self) -> Vector: ...
    def __add__(self, other: Vector | int, /) -> Vector: ...
    def __radd__(self, other: int, /) -> Vector: ...
    def __sub__(self, other: Vector | int, /) -> Vector: ...
    def __rsub__(self, other: int, /) -> Vector: ...
    def __mul__(self, other: Vector | int, /) -> Vector: ...
    def __rmul__(self, other: int, /) -> Vector: ...
    def __rfloordiv__(self, other: Never, /) -> Never: ...
    def __rlshift__(self, other: Never, /) -> Never: ...
    def __rrshift__(self, other: Never, /) -> Never: ...
    def __rand__(self, other: int, /) -> Vector: ...
    def __ror__(self, other: int, /) -> Vector: ...
    def __floordiv__(self, other: int, /) -> Vector: ...
    def __lshift__(self, other: int, /) -> Vector: ...
    def __rshift__(self, other: int, /) -> Vector: ...
    def __and__(self, other: Vector | int, /) -> Vector: ...
    def __or__(self, other: Vector | int, /) -> Vector: ...
    def __invert__(self) -> Vector: ...
    def __neg__(self) -> Vector: ...
    def __abs__(self) -> Vector: ...
    def __lt__(self, other: Vector | int, /) -> Vector: ...
    def __le__(self, other: Vector | int, /) -> Vector: ...
    def __gt__(self, other: Vector | int, /) -> Vector: ...
    def __ge__(self, other: Vector | int, /) -> Vector: ...
    def __eq__(self, other: Vector | int, /) -> Vector: ...  # type: ignore[override]
    def __ne__(self, other: Vector | int, /) -> Vector: ...  # type: ignore[override]
    def lower(self, other: Vector | int) -> Vector:
        """Return the smaller number of each row."""

    def higher(self, other: Vector | int) -> Vector:
        """Return the larger number of each row."""

    def scaled(self, factor: float) -> Vector:
        """Return the numbers times a factor, without fractions."""

    def reaches(self, factor: float, other: Vector) -> Vector:
        """Return which numbers are at least `factor` times the other vector's."""

    def sum(self) -> int: ...
    def min(self, initial: int | None = None) -> int: ...
    def max(self, initial: int | None = None) -> int: ...
    def argmax(self) -> int:
        """Return the first row with the maximum."""

    def count(self) -> int:
        """Return the number of rows that aren't 0."""

    def any(self) -> bool: ...
    def all(self) -> bool: ...
    def any_bits(self) -> int:
        """Return all numbers combined by OR."""

    def all_bits(self) -> int:
        """Return all numbers combined by AND."""

    def sums(self) -> Vector:
        """Return the running sums."""

    def highest_less(self, changes: Vector, least: int) -> int:
        """Return the highest number after subtracting the running sums of `changes`, but no less
        than `least`. Numbers are 64-bit signed.
        """

    def extremes(self, starts: Vector | _Source) -> tuple[Vector, Vector]:
        """Return the first row with the minimum and the first one with the maximum of each part.

        `starts`: the parts' first rows, in ascending order. The last part ends with the vector.
        """

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice | Vector, /) -> Vector: ...
    def __setitem__(self, key: int | slice | Vector, value: Vector | _Source | int, /) -> None: ...
    def add_at(self, rows: Vector, values: Vector | int) -> None:
        """Add to rows, which may occur repeatedly."""

    def rows(self) -> Vector:
        """Return the numbers of the rows that aren't 0."""

    def order(self) -> Vector:
        """Return the rows' numbers in ascending order of the values. Equal values stay in order."""

    def sorted(self) -> Vector: ...
    def places(self, values: Vector | _Source, right: bool = False) -> Vector:
        """Return for each value how many numbers of this sorted vector are less than it (`right`:
        or equal).
        """

    def numbered(self) -> tuple[Vector, Vector]:
        """Return the distinct numbers in ascending order, and each row's place among them."""

    def distinct(self) -> Vector:
        """Return the distinct numbers in ascending order."""

    def is_in(self, values: Vector | _Source) -> Vector:
        """Return which numbers are among the values."""

    def counts(self, least: int = 0) -> Vector:
        """Return how often each number from 0 on occurs, for at least `least` numbers."""

def vector(source: Vector | _Source, fmt: str = "q") -> Vector:
    """Return a vector of numbers, or of a buffer's items in place."""

def zeros(n: int, fmt: str = "q") -> Vector: ...
def constant(value: int, n: int, fmt: str = "q") -> Vector:
    """Return a vector of equal numbers, which takes no memory. It can't be changed."""

def counting(n: int) -> Vector:
    """Return the numbers from 0 to n - 1."""

def joined(parts: Iterable[Vector | _Source], fmt: str = "q") -> Vector:
    """Return vectors, one after the other."""

def joined_rows(first: Vector | _Source, every: Vector | _Source, rows: Vector, fmt: str) -> Vector:
    """Return a vector and then the selected rows of another one."""

def chosen(mask: Vector, first: Vector | int, second: Vector | int) -> Vector:
    """Return for each row the first value if the mask is set, else the second one."""

def row_distances(rows: Vector, width: int, row: int, others: Vector) -> Vector:
    """Return how much other rows of a matrix differ from one row, as the sum of differences."""
