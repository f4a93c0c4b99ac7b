"""Keep the recorder's own errors out of the recorded program.

All recorder code in hooks, patched methods, observers and handlers runs in `Guard.run`. That method
catches errors, counts them for the snapshot, and reports the first one on stderr.

Needs only the standard library: a dry run loads this file by path in any Python.
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

MOST_FAILURES = 100  # most distinct failures to keep
LONGEST = 300  # maximum length of an error message, in characters


class Guard:
    """Run the recorder's code and count its failures.

    Parameters
    ----------
    torch : module, optional
        PyTorch. While the recorder looks at tensors, it doesn't call the program's
        ``__torch_function__``, whether a subclass or a mode defines it.
    say : callable, optional
        Called with the first failure's report; by default it's printed to stderr.
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
        """Return `work(*args)`, or `otherwise` if that fails. `doing` describes the work in the
        report.

        KeyboardInterrupt and SystemExit pass through, and so do exceptions raised by the program's
        own signal handlers.
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
        """Count a failure and report the first one."""
        first = not self.counts
        key = doing, described(error)
        if key in self.counts or len(self.counts) < MOST_FAILURES:
            self.counts[key] = self.counts.get(key, 0) + 1
        if first:
            self.say(
                f"{doing} failed ({key[1]}); the program continues, but some categories may be"
                " wrong or missing; the snapshot counts these failures"
            )

    def failures(self) -> list[dict[str, Any]]:
        """Return all failures in the form used in a snapshot (docs/format.md)."""
        return [
            {"doing": doing, "error": error, "count": count}
            for (doing, error), count in list(self.counts.items())
        ]


def on_stderr(words: str) -> None:
    # stderr may not exist or may be closed.
    with contextlib.suppress(Exception):
        sys.stderr.write(f"memreplay: {words}\n")


def described(error: Exception) -> str:
    """Format an error's type and message in one line. The error's own methods may fail, too."""
    kind = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"{kind}: {text}"[:LONGEST] if text else kind


def from_a_signal(error: BaseException) -> bool:
    """Return whether a signal handler raised this error, as some timeouts do."""
    handlers = set(codes_of_handlers())
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def codes_of_handlers() -> Iterator[CodeType]:
    """Yield the code objects of signal handlers written in Python."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        if not callable(handler):
            continue
        while hasattr(handler, "func"):  # functools.partial
            handler = handler.func
        called = vars(type(handler)).get("__call__")  # an instance of a class from the program
        for one in (handler, called):
            code = getattr(getattr(one, "__func__", one), "__code__", None)
            if code is not None:
                yield code
