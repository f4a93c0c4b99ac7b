"""What every executor gives back: one `Done` an item, whatever became of it."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from memreplay.errors import MemreplayError, UsageError
from memreplay.texts import clean_short

T = TypeVar("T")
R = TypeVar("R")

Status = Literal["ok", "failed", "died", "memory"]

LONGEST = 500  # characters of an error
_PROTOCOL = 5  # of what goes from process to process


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """What became of one item.

    Attributes
    ----------
    index : int
        Which of the items.
    result : R or None
        What the function returned; None unless `status` is `ok`.
    status : str
        `ok`; `failed`: the function raised; `memory`: it ran out of memory; `died`: it took its
        worker with it, and did so again when it was done alone.
    error : str
        Why not, in one line; empty if `ok`.
    """

    index: int
    result: R | None
    status: Status
    error: str


class Executor(Protocol):
    """Runs a function over many items.

    What it says of an item is the same whichever executor it is. The function and the items must
    be picklable. The function may be called twice for an item, and be stopped at any point: what
    it writes it should write under another name, and rename when it is whole.
    """

    @property
    def workers(self) -> int:
        """How many items are worked on at once."""
        ...

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """One `Done` an item, in the order in which they end. What is running ends with the
        iterator."""
        ...

    def close(self) -> None:
        """End all workers that were started here."""
        ...


def packed(value: object) -> bytes:
    """Anything as it goes from process to process. Raises what pickle raises."""
    return pickle.dumps(value, _PROTOCOL)


def packed_item(index: int, item: object) -> bytes | Done[Any]:
    """An item as it goes to a worker; done already if it cannot go there."""
    try:
        return packed(item)
    except Exception as error:
        return Done(index, None, _status(error), in_a_line(error))


def packed_work(work: object, pack: Callable[[object], bytes] = packed) -> bytes:
    """A function as it goes to a worker. Raises UsageError where it cannot go anywhere."""
    try:
        return pack(work)
    except Exception as error:
        raise UsageError(f"no worker can be given this function: {in_a_line(error)}") from None


def attempt(work: Callable[[Any], object], item: bytes) -> bytes:
    """Call a function with a packed item, where the worker is: what `heard` reads.

    All that can go wrong is told as a line of text: an exception may hold anything, and be one
    that no other process can load.
    """
    failure: BaseException | None = None
    try:
        return packed(("ok", work(pickle.loads(item)), ""))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        failure = error
    # Only now, without the frames of what failed: they hold the memory that there was none of.
    with suppress(Exception):
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
    return packed((_status(failure), None, in_a_line(failure)))


def heard(index: int, answer: bytes) -> Done[Any]:
    """What `attempt` gave, at the other end."""
    try:
        status, result, error = pickle.loads(answer)
    except Exception as unread:
        return Done(index, None, _status(unread), in_a_line(unread))
    return Done(index, result, status, error)


def in_a_line(error: BaseException) -> str:
    """An exception in one printable line; of memreplay's own, its message alone."""
    try:
        text = str(error).strip()
    except Exception:  # a __str__ that raises
        text = ""
    if text and isinstance(error, MemreplayError):
        return _plain(text)
    kind = "out of memory" if _status(error) == "memory" else type(error).__name__
    return _plain(f"{kind}: {text}" if text else kind)


def _status(error: BaseException) -> Status:
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return "memory"
    # What Python says where there is no memory left for a thread's stack.
    if isinstance(error, RuntimeError) and error.args[:1] == ("can't start new thread",):
        return "memory"
    return "failed"


def _plain(text: str) -> str:
    """In one line; what would steer a terminal is spelled out."""
    text = " ".join(text[: 4 * LONGEST].split())
    return clean_short(text, LONGEST)
