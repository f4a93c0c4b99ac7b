"""Keeps the recorder's own errors out of the program that it records.

Everything that the recorder does while a program runs goes through `Guard.run`: hooks, patched
methods, observers and handlers. An error ends there, is counted for the snapshot, and the first one
is reported on stderr.

Only the standard library is needed: a dry run loads this file by its path, in any Python.
"""

from __future__ import annotations

import contextlib
import signal
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import CodeType
    from typing import Any, TypeVar

    T = TypeVar("T")
    U = TypeVar("U")

MOST_FAILURES = 100  # kinds of them that are kept
LONGEST = 300  # characters of an error's text


class Guard:
    """Runs parts of the recorder, and counts those that fail.

    Parameters
    ----------
    torch : module, optional
        PyTorch. While the recorder looks at tensors, the program's ``__torch_function__`` isn't
        called: neither that of a subclass nor that of a mode.
    say : callable, optional
        Gets the report of the first failure; default: a line on stderr.
    """

    def __init__(self, torch: Any = None, say: Callable[[str], None] | None = None) -> None:
        core = getattr(torch, "_C", None)
        self.apart: Callable[[], AbstractContextManager[Any]] = getattr(
            core, "DisableTorchFunction", contextlib.nullcontext
        )
        self.say = say or on_stderr
        self.counts: dict[tuple[str, str], int] = {}

    def run(
        self,
        doing: str,
        work: Callable[..., T],
        *args: Any,
        otherwise: U = None,  # type: ignore[assignment]
    ) -> T | U:
        """Return `work(*args)`, or `otherwise` if that fails. `doing` says what failed then.

        What isn't an Exception (KeyboardInterrupt, SystemExit) passes, and so does what the
        program's own handler of a signal raises, whatever code the signal has interrupted.
        """
        try:
            with self.apart():
                return work(*args)
        except Exception as error:
            if from_a_signal(error):
                raise
            self.note(doing, error)
            return otherwise

    def note(self, doing: str, error: Exception) -> None:
        """Count a failure, and report the first."""
        first = not self.counts
        key = doing, described(error)
        if key in self.counts or len(self.counts) < MOST_FAILURES:
            self.counts[key] = self.counts.get(key, 0) + 1
        if first:
            self.say(
                f"{doing} failed ({key[1]}): the program goes on, and some categories may be wrong"
                " or missing; the snapshot says how often this happened"
            )

    def failures(self) -> list[dict[str, Any]]:
        """All failures, as a snapshot keeps them (docs/format.md)."""
        return [
            {"doing": doing, "error": error, "count": count}
            for (doing, error), count in list(self.counts.items())
        ]


def on_stderr(words: str) -> None:
    # Without a stderr, or with one that is closed, there is nobody to tell.
    with contextlib.suppress(Exception):
        sys.stderr.write(f"memreplay: {words}\n")


def described(error: Exception) -> str:
    """The type and text of an error, in one line. Its own methods may fail, too."""
    kind = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"{kind}: {text}"[:LONGEST] if text else kind


def from_a_signal(error: BaseException) -> bool:
    """Return whether a handler of a signal raised this error, as a timeout's handler does."""
    handlers = set(codes_of_handlers())
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def codes_of_handlers() -> Iterator[CodeType]:
    """The code of each signal handler that is written in Python."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        if not callable(handler):
            continue
        while hasattr(handler, "func"):  # functools.partial
            handler = handler.func
        called = vars(type(handler)).get("__call__")  # of an object of the program's own class
        for one in (handler, called):
            code = getattr(getattr(one, "__func__", one), "__code__", None)
            if code is not None:
                yield code
