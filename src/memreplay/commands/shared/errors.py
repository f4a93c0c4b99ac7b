"""Turns errors into one line on stderr and an exit code: the only place that catches them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from memreplay.errors import MemreplayError

T = TypeVar("T")
PART = "read a part with --from and --to"
NO_THREAD = "the system gives no more threads; see its limits (ulimit -u)"

NOT_TRUSTED = 1
NOT_READABLE = 3
# What a shell reports for a tool that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
PIPE_CLOSED = 141
CANNOT_WRITE = 2
CUT_OFF = "the snapshot is cut off: these are the numbers of its intact part"


def attempt(file: str, work: Callable[[], T]) -> tuple[T | None, int]:
    """Run `work`, which reads `file`: its result and 0, or None and the exit code of its error.

    An error is reported here, so that a command over several files can go on with the next one. One
    that names its file by itself is reported with an empty `file`.
    Not for writing output: an error of that is none of the file's.
    """
    found, exit_code, _ = told(file, work)
    return found, exit_code


def told(file: str, work: Callable[[], T]) -> tuple[T | None, int, str]:
    """As `attempt`, and after it the line that says what the error was, without the file's name."""
    found, exit_code, words = untold(work)
    if exit_code:
        complain(f"{name_of(file)}: {words}" if file else words)
    return found, exit_code, words


def untold(work: Callable[[], T]) -> tuple[T | None, int, str]:
    """As `told`, but nothing is reported: the caller does that."""
    try:
        return work(), 0, ""
    except MemreplayError as error:
        exit_code, words = error.exit_code, str(error)
    except OSError as error:
        exit_code, words = NOT_READABLE, _os_error_words(error)
    except MemoryError:
        exit_code, words = NOT_READABLE, f"not enough memory to read it; {PART}"
    except RuntimeError as error:
        if not _is_out_of_threads(error):
            raise
        exit_code, words = NOT_READABLE, NO_THREAD
    return None, exit_code, words


@contextmanager
def catching(ctx: click.Context) -> Iterator[None]:
    """End the command with the right exit code for what no single file is to blame for.

    Output is flushed as it is written, so that an error of it is raised in here, not at exit.
    """
    try:
        yield
    except click.ClickException as error:  # of a command line; click shows it
        from memreplay.texts import clean

        error.message = clean(error.message)  # type: ignore[misc]  # to others it is final
        raise
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:  # `memreplay peak snap.pkl | head`: no word, as other tools
        ctx.exit(PIPE_CLOSED)
    except MemreplayError as error:
        complain(str(error))
        ctx.exit(error.exit_code)
    except MemoryError:
        complain(f"not enough memory; {PART}")
        ctx.exit(NOT_READABLE)
    except RuntimeError as error:
        # click's own way out is one, too.
        if not _is_out_of_threads(error):
            raise
        complain(NO_THREAD)
        ctx.exit(NOT_READABLE)
    except OSError as error:
        complain(f"cannot write the output: {_words_of_writing(error)}")
        ctx.exit(CANNOT_WRITE)


def _is_out_of_threads(error: RuntimeError) -> bool:
    return "can't start new thread" in str(error)


def _os_error_words(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a directory; name a snapshot file in it"
    if isinstance(error, PermissionError):
        return "permission denied; it belongs to someone else or is not readable"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _words_of_writing(error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return _os_error_words(error)
    # The file has a passing name; it is the folder that may not be written in.
    folder = os.path.dirname(os.fsdecode(error.filename)) if error.filename else ""
    return f"permission denied in {folder}" if folder else "permission denied"


def complain(text: str) -> None:
    """An error, on stderr."""
    # A name or a message may hold anything; imported here, as only errors need it.
    from memreplay.texts import clean

    click.echo(f"memreplay: error: {clean(text)}", err=True)


def say(note: str) -> None:
    """A word on stderr that is no error."""
    from memreplay.texts import clean

    click.echo(f"memreplay: {clean(note)}", err=True)


def name_of(file: str) -> str:
    """What to call a FILE argument: of a web address without user, password and signature."""
    if "://" in file:
        from memreplay.io.urls import is_url, without_secrets

        return without_secrets(file) if is_url(file) else file
    return "standard input" if file == "-" else file
