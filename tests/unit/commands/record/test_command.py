"""Tests of `memreplay record`: the program's arguments and exit code, and messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memreplay.commands.app import app
from tests.commanding import command_runner

# A fake recorded program, which needs no device.
RECORDED = """
import json, os, sys
told = json.loads(os.environ["MEMREPLAY_RECORD"])
folder = told.pop("folder")
print(json.dumps(told, sort_keys=True))
open(os.path.join(folder, "1"), "w").close()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memreplay", "record", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_program_gets_its_arguments_and_environment(tmp_path: Path) -> None:
    done = run(tmp_path, "--", sys.executable, "-c", RECORDED)
    assert (done.returncode, done.stderr) == (0, "")
    path = os.path.join(os.path.realpath(tmp_path), "snapshot.pickle")
    assert done.stdout == (
        '{"continuous": false, "every": null, "holders": false, "max_entries": null,'
        f' "overwrite": true, "path": "{path}", "pinned": false, "source": false,'
        ' "stacks": "auto"}\n'
    )
    done = run(tmp_path, "-o", "b.pickle", "--", sys.executable, "-c", RECORDED)
    assert '"overwrite": false' in done.stdout  # a custom name
    more = ("--stacks", "all", "--max-entries", "9", "--every", "2", "--force", "-o", "a.pkl.gz")
    done = run(
        tmp_path, *more, "--source", "--holders", "--pinned", "--", sys.executable, "-c", RECORDED
    )
    assert '"every": 2, "holders": true, "max_entries": 9, "overwrite": true' in done.stdout
    assert '/a.pkl.gz", "pinned": true, "source": true, "stacks": "all"' in done.stdout
    done = run(tmp_path, "-o", "memory://run/a.pickle", "--", sys.executable, "-c", RECORDED)
    assert '"path": "memory://run/a.pickle"' in done.stdout


def test_continuous_recording_has_options_of_its_own(tmp_path: Path) -> None:
    rotate = ("--continuous", "--rotate", "keep=3", "--rotate", "size=1MiB")
    done = run(tmp_path, *rotate, "--", sys.executable, "-c", RECORDED)
    assert '{"continuous": {"keep": 3, "size": 1048576}, ' in done.stdout
    done = run(tmp_path, "--continuous", "-o", "b", "--", sys.executable, "-c", RECORDED)
    assert '{"continuous": true, ' in done.stdout
    done = run(tmp_path, "--rotate", "keep=3", "--", sys.executable, "-c", RECORDED)
    assert (done.returncode, done.stderr) == (
        2,
        "memreplay: error: --rotate needs --continuous\n",
    )


def test_programs_exit_code_is_passed_on(tmp_path: Path) -> None:
    assert run(tmp_path, "--", "sh", "-c", "exit 7").returncode == 7
    done = run(tmp_path, "--", "sh", "-c", "kill -9 $$")
    assert (done.returncode, done.stderr) == (128 + 9, "")
    done = run(tmp_path, "--", "true")
    assert done.returncode == 5
    assert done.stderr.startswith("memreplay: error: nothing was recorded: the program used no")


def test_usage_errors_are_reported(tmp_path: Path) -> None:
    (tmp_path / "there.pickle").touch()
    for arguments, words in (
        (("-o", "x.json", "--", "true"), "snapshots are pickles"),
        (("-o", "there.pickle", "--", "true"), "there.pickle already exists"),
        (("-o", "memory://run/x.json", "--", "true"), "snapshots are pickles"),
        (("-o", "memory://run/x", "--continuous", "--", "true"), "only to this machine"),
        (("--", "no-such-command"), "no-such-command doesn't run: No such file"),
        (("--", "train.py"), "No such file or directory; put python before it: python train.py"),
        ((), "missing argument"),
    ):
        done = run(tmp_path, *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_program(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "memreplay", "record", "--", sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(30) == 9


def test_help_has_an_example_and_the_exit_codes() -> None:
    found = command_runner().invoke(app, ["record", "--help"]).output
    assert "memreplay record -- python train.py" in found
    assert (
        "Exit codes: 0 the program succeeded, 2 usage error, 5 the program succeeded"
        " without using a GPU" in " ".join(found.split())
    )


def test_output_file_of_an_earlier_recording_is_replaced(tmp_path: Path) -> None:
    for name in ("snapshot.pickle", "snapshot.rank0.pickle"):
        (tmp_path / name).touch()
    assert run(tmp_path, "--", sys.executable, "-c", RECORDED).returncode == 0
    named = run(tmp_path, "-o", "snapshot.pickle", "--", sys.executable, "-c", RECORDED)
    assert named.returncode == 2
    assert "snapshot.pickle already exists; give --force to replace it" in named.stderr
