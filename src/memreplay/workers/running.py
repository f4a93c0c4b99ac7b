"""The executors' results: one `Done` per item."""

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

LONGEST = 500  # maximum length of an error message, in characters
_PROTOCOL = 5  # pickle protocol between processes


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The outcome of one item.

    Attributes
    ----------
    index : int
        The item's index.
    result : R or None
        The return value; None unless `status` is `ok`.
    status : str
        `ok`; `failed`: the function raised an exception; `memory`: it ran out of memory; `died`: it
        crashed its worker, even when retried by itself.
    error : str
        The reason in one line, or "".
    """

    index: int
    result: R | None
    status: Status
    error: str


class Executor(Protocol):
    """Runs a function over many items.

    All executors report the same result for the same item. The function and the items must be
    picklable. The function may be called twice for an item and be stopped at any point, so it
    should write files under a temporary name and rename them at the end.
    """

    @property
    def workers(self) -> int:
        """Number of items that run at the same time."""
        ...

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """Yield one `Done` per item as items finish. Closing the iterator stops running items."""
        ...

    def close(self) -> None:
        """Stop all workers that were started here."""
        ...


def packed(value: object) -> bytes:
    """Pickle a value for another process. Raises whatever pickle raises."""
    return pickle.dumps(value, _PROTOCOL)


def packed_item(index: int, item: object) -> bytes | Done[Any]:
    """Pickle an item, or return its failure."""
    try:
        return packed(item)
    except Exception as error:
        return Done(index, None, _status(error), in_a_line(error))


def packed_work(work: object, pack: Callable[[object], bytes] = packed) -> bytes:
    """Pickle a function. Raises UsageError if that's impossible."""
    try:
        return pack(work)
    except Exception as error:
        raise UsageError(f"this function can't be sent to workers: {in_a_line(error)}") from None


def attempt(work: Callable[[Any], object], item: bytes) -> bytes:
    """Call a function with a pickled item, in the worker. `heard` reads the answer.

    Errors are sent as a line of text: other processes may be unable to load an exception.
    """
    failure: BaseException | None = None
    try:
        return packed(("ok", work(pickle.loads(item)), ""))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        failure = error
    # Do this only after the failing frames are released, because they hold memory.
    with suppress(Exception):
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
    return packed((_status(failure), None, in_a_line(failure)))


def heard(index: int, answer: bytes) -> Done[Any]:
    """Decode the answer of `attempt`."""
    try:
        status, result, error = pickle.loads(answer)
    except Exception as unread:
        return Done(index, None, _status(unread), in_a_line(unread))
    return Done(index, result, status, error)


def in_a_line(error: BaseException) -> str:
    """Format an exception in one printable line. For memreplay's own exceptions, this is only the
    message.
    """
    try:
        text = str(error).strip()
    except Exception:  # __str__ raised an exception
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
    # Python's message if memory doesn't suffice for a new thread's stack.
    if isinstance(error, RuntimeError) and error.args[:1] == ("can't start new thread",):
        return "memory"
    return "failed"


def _plain(text: str) -> str:
    """Put text on one line and escape control characters."""
    text = " ".join(text[: 4 * LONGEST].split())
    return clean_short(text, LONGEST)
