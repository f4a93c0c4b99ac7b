"""Tests of commands/shared/errors.py: each error is one line on stderr, with its exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from memreplay.commands.shared.errors import (
    attempt,
    attempt_explained,
    attempt_unreported,
    catching,
)
from memreplay.errors import (
    LimitError,
    MissingExtraError,
    SnapshotError,
    TruncatedError,
    UnsafePickleError,
    UsageError,
)


def raiser(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    "error, exit_code, words",
    [
        (SnapshotError("bad magic", offset=7, opcode="GET", hint="redo"), 3, "bad magic (byte 7, "),
        (TruncatedError("need 8 bytes, 3 left", offset=100), 4, "need 8 bytes, 3 left (byte 100)"),
        (UnsafePickleError("os.system"), 3, "os.system"),
        (LimitError("too deep"), 3, "too deep"),
        (UsageError("no device 5; there are 0 and 1"), 2, "no device 5; there are 0 and 1"),
        (MissingExtraError("pip install memreplay[zst]"), 2, "pip install memreplay[zst]"),
        (FileNotFoundError(errno.ENOENT, "No such file"), 3, "no such file"),
        (
            IsADirectoryError(errno.EISDIR, "x"),
            3,
            "this is a directory; give a snapshot file in it",
        ),
        (
            PermissionError(errno.EACCES, "x"),
            3,
            "permission denied; check the file's owner and mode",
        ),
        (OSError(errno.EIO, "Input/output error"), 3, "input/output error"),
        (OSError("Odd"), 3, "odd"),
        (OSError(), 3, "oserror"),
        (ModuleNotFoundError(name="numpy.core"), 2, "this needs NumPy: pip install numpy"),
        (
            RuntimeError("can't start new thread"),
            3,
            "the system can't create more threads; check its limits (ulimit -u)",
        ),
    ],
)
def test_error_names_the_file(
    capsys: pytest.CaptureFixture[str], error: BaseException, exit_code: int, words: str
) -> None:
    assert attempt("snap.pkl", raiser(error)) == (None, exit_code)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"memreplay: error: snap.pkl: {words}")
    assert err.count("\n") == 1


def test_result_passes_through() -> None:
    assert attempt("snap.pkl", lambda: 7) == (7, 0)


def test_hostile_names_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    attempt("a\n\x1b[2J\udcff.pkl", raiser(SnapshotError("no\nway")))
    expected = "memreplay: error: a\\n\\x1b[2J\\udcff.pkl: no\\nway\n"
    assert capsys.readouterr().err == expected


def test_standard_input_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    attempt("-", raiser(SnapshotError("no-op")))
    assert capsys.readouterr().err == "memreplay: error: standard input: no-op\n"


def test_bugs_keep_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        attempt("snap.pkl", raiser(ZeroDivisionError()))
    with pytest.raises(RuntimeError, match="another"):
        attempt("snap.pkl", raiser(RuntimeError("another")))
    with pytest.raises(ModuleNotFoundError, match="another"):
        attempt("snap.pkl", raiser(ModuleNotFoundError("another", name="another")))


@pytest.mark.parametrize(
    "error, exit_code, words",
    [
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (UsageError("cannot be"), 2, "memreplay: error: cannot be\n"),
        (
            MemoryError(),
            3,
            "memreplay: error: not enough memory; read a part with --from and --to\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied"),
            2,
            "memreplay: error: can't write the output: permission denied\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/some/.memreplay-1.part"),
            2,
            "memreplay: error: can't write the output: permission denied in /some\n",
        ),
        (
            RuntimeError("can't start new thread"),
            3,
            (
                "memreplay: error: the system can't create more threads; check its limits"
                " (ulimit -u)\n"
            ),
        ),
        (
            ModuleNotFoundError("No module named 'numpy'", name="numpy"),
            2,
            "memreplay: error: this needs NumPy: pip install numpy\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "memreplay: error: can't write the output: no space left on device\n",
        ),
    ],
)
def test_error_without_a_file_takes_one_line(
    runner: CliRunner, error: BaseException, exit_code: int, words: str
) -> None:
    @click.command()
    @click.pass_context
    def failing(ctx: click.Context) -> None:
        with catching(ctx):
            raise error

    result = runner.invoke(failing)
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", words)


def run_with_stdout(stdout: int, arguments: list[str]) -> tuple[int, str]:
    """Return the exit code and stderr of a process whose output goes to `stdout`."""
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


PRINTING = ["completion", "fish"], ["peak", "--help"], ["--help"], ["--version"]


@pytest.mark.parametrize("arguments", PRINTING)
def test_closed_pipe_is_quiet(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert run_with_stdout(writing, arguments) == (141, "")
    os.close(writing)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", PRINTING)
def test_full_disk_is_reported_once(arguments: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    exit_code, stderr = run_with_stdout(full, arguments)
    os.close(full)
    assert exit_code == 2
    assert stderr == "memreplay: error: can't write the output: no space left on device\n"


def test_out_of_memory_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise MemoryError

    assert attempt("snap.pkl", work) == (None, 3)
    line = (
        "memreplay: error: snap.pkl: not enough memory to read it; read a part with --from and --to"
    )
    assert capsys.readouterr().err == f"{line}\n"


def test_attempt_explained_returns_the_message_without_the_file_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert attempt_explained("x.pkl", lambda: 7) == (7, 0, "")
    assert attempt_explained("x.pkl", raiser(UsageError("no such device"))) == (
        None,
        2,
        "no such device",
    )
    assert capsys.readouterr().err == "memreplay: error: x.pkl: no such device\n"


def test_suppressed_error_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert attempt_unreported(lambda: 7) == (7, 0, "")
    assert attempt_unreported(raiser(UsageError("no such device"))) == (None, 2, "no such device")
    assert attempt_unreported(raiser(FileNotFoundError())) == (None, 3, "no such file")
    assert capsys.readouterr() == ("", "")
