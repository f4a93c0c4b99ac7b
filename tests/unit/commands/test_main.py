"""Tests of __main__.py."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = str(Path(__file__).parents[3] / "tests/data/transformer_step.pkl.gz")


def test_python_m_memreplay_shows_the_program_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "peak"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("memreplay: error: missing argument 'FILE'; see memreplay peak --help\n")


def python(code: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    start = "import sys\nfrom memreplay import __main__\nsys.argv[1:] = ['--help']\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


@pytest.mark.parametrize("given", [["--version"], ["-V"]], ids=str)
def test_version_matches_the_command_line(given: list[str]) -> None:
    found = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        for code in (
            f"import sys; sys.argv[1:] = {given}; from memreplay.__main__ import run; run()",
            f"import sys; sys.argv[1:] = {given}; from memreplay.__main__ import main; main()",
        )
    ]
    assert found[0].stdout.startswith(b"memreplay ")
    assert {(one.returncode, one.stdout, one.stderr) for one in found} == {
        (0, found[0].stdout, b"")
    }


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
def test_unwritable_version_takes_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memreplay", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"memreplay: error: can't write the output: no space left on device\n"


def test_typing_extensions_is_not_imported_or_removed() -> None:
    pytest.importorskip("typing_extensions")
    code = "import sys; from memreplay.__main__ import _load_msgspec; _load_msgspec();"
    for before, says in (("", "absent"), ("import typing_extensions;", "there")):
        words = "print('there' if 'typing_extensions' in sys.modules else 'absent')"
        done = subprocess.run(
            [sys.executable, "-c", before + code + words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == (says, "") or sys.version_info < (3, 11)


def test_exit_handlers_run() -> None:
    done = python("import atexit; atexit.register(print, 'bye', end=''); __main__.run()")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("bye")  # flushed, too


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    "module", ["memreplay.commands", "memreplay.commands.shared.ending", "memreplay.commands.app"]
)
def test_ctrl_c_during_an_import_ends_quietly(module: str) -> None:
    press = f"""
import os, signal

class Press:
    def find_spec(self, name, *args):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
__main__.run()
"""
    done = python(press)
    assert (done.returncode in (-signal.SIGINT, 128 + signal.SIGINT), done.stderr) == (True, "")


def test_package_imports_almost_nothing() -> None:
    code = "import sys, memreplay; print('typing' in sys.modules, 'enum' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


def test_exit_code_is_passed_on() -> None:
    assert python("sys.argv[1:] = ['nonsense']; __main__.run()").returncode == 2


def test_textual_exit_code_is_left_to_python() -> None:
    done = python("__main__.main = lambda: sys.exit('in words')\n__main__.run()")
    assert (done.returncode, done.stderr) == (1, "in words\n")


def test_unwritable_output_at_exit_gives_no_traceback() -> None:
    done = python("__main__.main = lambda: (sys.stdout.close(), sys.exit(0))\n__main__.run()")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_exit_code_is_kept_without_standard_streams() -> None:
    streams = "sys.stdin = sys.stdout = sys.stderr = None\n"
    code = f"{streams}__main__.main = lambda: sys.exit(7)\n__main__.run()"
    done = python(code)
    assert done.returncode == 7


@pytest.mark.parametrize(
    "closed, arguments, exit_code, words",
    [
        (">&-", ["--version"], 2, "can't write the output: bad file descriptor"),
        (">&-", ["peak", EXAMPLE], 2, "can't write the output: bad file descriptor"),
        (
            ">&-",
            ["export", EXAMPLE, "--format", "txt"],
            2,
            "can't write the output: bad file descriptor",
        ),
        ("<&-", ["peak", "-"], 3, "standard input: bad file descriptor"),
    ],
)
def test_closed_standard_stream_takes_one_line(
    closed: str, arguments: list[str], exit_code: int, words: str
) -> None:
    command = shlex.join([sys.executable, "-m", "memreplay", *arguments])
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (exit_code, f"memreplay: error: {words}\n")


def test_closed_stderr_does_not_affect_the_report() -> None:
    command = shlex.join([sys.executable, "-m", "memreplay", "peak", EXAMPLE])
    done = subprocess.run(
        ["sh", "-c", f"{command} 2>&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "peak" in done.stdout
