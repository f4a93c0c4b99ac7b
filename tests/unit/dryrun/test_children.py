"""Tests of dryrun/children.py: several processes that end in different ways."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from memreplay.dryrun.children import Children
from memreplay.errors import UsageError


def started(code: str, *ranks: int) -> Children:
    command = [sys.executable, "-c", "import os, time\n" + code]
    return Children(command, [{"RANK": str(rank)} for rank in ranks] or [{}])


def test_one_process_gives_its_status() -> None:
    assert started("raise SystemExit(3)").wait(60) == 3
    assert started("assert 'RANK' not in os.environ").wait() == 0


def test_each_rank_has_its_environment() -> None:
    children = started("assert int(os.environ['RANK']) in (2, 5)", 2, 5)
    assert len(set(children.pids)) == 2
    assert children.wait(60) == 0


def test_first_failure_stops_the_others() -> None:
    begun = time.monotonic()
    code = "os.environ['RANK'] == '5' and exit(9)\ntime.sleep(60)"
    assert started(code, 2, 5).wait() == 9
    assert time.monotonic() - begun < 30


def test_waiting_for_several_has_a_limit() -> None:
    children = started("time.sleep(60)", 2, 5)
    with pytest.raises(subprocess.TimeoutExpired):
        children.wait(0.1)
    for child in children._them:
        child.kill()
    assert children.wait(30) == -9


def test_command_that_does_not_start_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="/nowhere doesn't run: No such file"):
        Children(["/nowhere"], [{}])
