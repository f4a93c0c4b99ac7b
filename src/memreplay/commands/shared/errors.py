"""Turn errors into one line on stderr and an exit code. This is the only place that catches
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from memreplay.errors import MemreplayError

T = TypeVar("T")
PART = "read a part with --from and --to"
NO_NUMPY = "this needs NumPy: pip install numpy"
NO_THREAD = "the system can't create more threads; check its limits (ulimit -u)"

NOT_TRUSTED = 1
NOT_READABLE = 3
# The exit code that shells report for a program ended by SIGINT or SIGPIPE.
INTERRUPTED = 130
PIPE_CLOSED = 141
CANNOT_WRITE = 2
CUT_OFF = "the snapshot is cut off, so these numbers cover only its intact part"


def attempt(file: str, work: Callable[[], T]) -> tuple[T | None, int]:
    """Run `work`, which reads `file`. Return its result and 0, or None and the error's exit code.

    The error is reported here, so that a command can go on with the next file. Pass "" as `file` if
    errors already name it. Don't use this for writing output, because its errors aren't about the
    input.
    """
    found, exit_code, _ = attempt_explained(file, work)
    return found, exit_code


def attempt_explained(file: str, work: Callable[[], T]) -> tuple[T | None, int, str]:
    """Like `attempt`, but also return the error's message without the file name."""
    found, exit_code, words = attempt_unreported(work)
    if exit_code:
        complain(f"{name_of(file)}: {words}" if file else words)
    return found, exit_code, words


def attempt_unreported(work: Callable[[], T]) -> tuple[T | None, int, str]:
    """Like `attempt_explained`, but let the caller report the error."""
    try:
        return work(), 0, ""
    except MemreplayError as error:
        exit_code, words = error.exit_code, str(error)
    except OSError as error:
        exit_code, words = NOT_READABLE, _os_error_text(error)
    except ModuleNotFoundError as error:
        if not _is_of_numpy(error):
            raise
        exit_code, words = MemreplayError.exit_code, NO_NUMPY
    except MemoryError:
        exit_code, words = NOT_READABLE, f"not enough memory to read it; {PART}"
    except RuntimeError as error:
        if not _is_out_of_threads(error):
            raise
        exit_code, words = NOT_READABLE, NO_THREAD
    return None, exit_code, words


@contextmanager
def catching(ctx: click.Context) -> Iterator[None]:
    """End the command with the right exit code for errors that aren't about a single file.

    Output is flushed as soon as it's written, so that its errors are raised here rather than at
    exit.
    """
    try:
        yield
    except click.ClickException as error:  # usage error, which click reports
        from memreplay.texts import clean

        error.message = clean(error.message)  # type: ignore[misc]  # to others it is final
        raise
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:  # as in `memreplay peak snap.pkl | head`; other tools are silent, too
        ctx.exit(PIPE_CLOSED)
    except MemreplayError as error:
        complain(str(error))
        ctx.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if not _is_of_numpy(error):
            raise
        complain(NO_NUMPY)
        ctx.exit(MemreplayError.exit_code)
    except MemoryError:
        complain(f"not enough memory; {PART}")
        ctx.exit(NOT_READABLE)
    except RuntimeError as error:
        # click's own Exit is also a RuntimeError.
        if not _is_out_of_threads(error):
            raise
        complain(NO_THREAD)
        ctx.exit(NOT_READABLE)
    except OSError as error:
        complain(f"can't write the output: {_words_of_writing(error)}")
        ctx.exit(CANNOT_WRITE)


def _is_of_numpy(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] == "numpy"


def _is_out_of_threads(error: RuntimeError) -> bool:
    return "can't start new thread" in str(error)


def _os_error_text(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a directory; give a snapshot file in it"
    if isinstance(error, PermissionError):
        return "permission denied; check the file's owner and mode"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _words_of_writing(error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return _os_error_text(error)
    # The error names a temporary file, because the folder isn't writable.
    folder = os.path.dirname(os.fsdecode(error.filename)) if error.filename else ""
    return f"permission denied in {folder}" if folder else "permission denied"


def complain(text: str) -> None:
    """Print an error to stderr."""
    # Names and messages are untrusted. Imported late: only for errors.
    from memreplay.texts import clean

    click.echo(f"memreplay: error: {clean(text)}", err=True)


def say(note: str) -> None:
    """Print a note to stderr."""
    from memreplay.texts import clean

    click.echo(f"memreplay: {clean(note)}", err=True)


def name_of(file: str) -> str:
    """Return a FILE argument for display. URLs are shown without user, password and signature."""
    if "://" in file:
        from memreplay.io.urls import is_url, without_secrets

        return without_secrets(file) if is_url(file) else file
    return "standard input" if file == "-" else file
