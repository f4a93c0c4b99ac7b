"""Commands on folders that loop and hold pipes, sockets, devices and the kernel's files: none of
them blocks, and each reads the snapshots.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.mcp.conftest import snapshot

SECONDS = 60
TARGETS = {
    4: "/dev/zero",
    5: "/dev/random",
    6: "rank6.pkl",
    7: "rank2.pkl",
    8: "/proc/self/mem",
    9: "/proc/kmsg",
    10: "/nowhere",
    11: "/dev/tty",
    12: "/proc/self/fd/0",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "run"
    (found / "sub").mkdir(parents=True)
    for rank in range(2):
        (found / f"rank{rank}.pkl").write_bytes(snapshot(5))
    os.mkfifo(found / "rank2.pkl")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(found)  # a socket's path must be short
        bound.bind("rank3.pkl")
        os.chdir(here)
    for rank, target in TARGETS.items():
        (found / f"rank{rank}.pkl").symlink_to(target)
    (found / "rank13.pkl").mkdir()
    (found / "loop").symlink_to("..")
    (found / "sub" / "up").symlink_to("../..")
    deep = found
    for _ in range(100):
        deep /= "d"
        deep.mkdir()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("watch", "run", "--until", "now", "--interval", "0.01"),
        ("watch", "-r", "run", "--until", "now", "--interval", "0.01"),
        ("fleet", "run", "--workers", "1"),
        ("fleet", "run/*.pkl", "--workers", "1"),
        ("gate", "run", "--max-peak", "1GiB", "--workers", "1"),
        ("view", "run", "-o", "run.html"),
        ("diff", "run", "run"),
    ],
)
def test_no_command_blocks(folder: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", *words],
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 3), done.stderr
    if words[0] == "watch":
        assert {"rank0.pkl", "rank1.pkl"} <= {*done.stdout.replace("run/", "").split()}
    if words[0] == "fleet":
        assert "\n2 ranks: " in done.stdout
