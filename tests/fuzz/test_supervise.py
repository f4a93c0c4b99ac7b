"""The supervisor finds planted crashes, hangs, errors and memory hogs, and loses no input."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.supervise import Allowed, Finding, death, minimised, run, verdict

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")

# The slow input takes 0.3 s of CPU time. The limit on wall time is much higher, because a busy
# machine must not count as a hang.
STRICT = Allowed(cpu_seconds=0.2, growth_base=30 << 20, killed_after=6, resident=1 << 30)
BAD = {50: b"raise", 90: b"abort", 91: b"hang", 130: b"slow", 170: b"memory", 199: b"exit"}


def make(number: int) -> tuple[str, bytes]:
    return "even" if number % 2 == 0 else "odd", BAD.get(number, b"%d" % number)


def target(data: bytes) -> str:
    if b"raise" in data:
        raise KeyError("planted")
    if b"abort" in data:
        os.kill(os.getpid(), signal.SIGABRT)
    if b"hang" in data:
        time.sleep(60)
    if b"slow" in data:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    if b"memory" in data:
        bytearray(40 << 20)[:: 1 << 10] = b"x" * (40 << 10)
    if b"exit" in data:
        os._exit(3)
    return "fine"


@pytest.mark.parametrize("workers", [1, 3])
def test_planted_faults_are_found_and_saved(workers: int) -> None:
    found: list[Finding] = []
    tally = run(make, target, inputs=200, workers=workers, allowed=STRICT, on_finding=found.append)
    assert {finding.number: finding.data for finding in found} == BAD
    by_number = {finding.number: finding.signature for finding in found}
    assert "KeyError in test_supervise.py:target" in by_number[50]
    assert by_number[90] == "signal SIGABRT"
    assert [by_number[n] for n in (91, 130, 170, 199)] == ["hang", "slow", "memory", "exit code 3"]
    assert tally.inputs == 200


def test_finding_is_reported_once() -> None:
    def wrong(_: bytes) -> str:
        raise ValueError("the same at byte 12")

    tally = run(make, wrong, inputs=50)
    assert (len(tally.findings), tally.repeats, tally.inputs) == (1, 49, 50)


def test_run_stops_after_a_number_of_inputs_or_seconds() -> None:
    assert run(make, target, inputs=10, first=40).inputs == 10
    began = time.monotonic()

    def slow(_: bytes) -> str:
        time.sleep(0.01)
        return "fine"

    tally = run(make, slow, inputs=10**9, seconds=0.3)
    assert time.monotonic() - began < 5
    assert 0 < tally.inputs < 1000


def test_finding_is_minimised() -> None:
    finding = verdict(b"some bytes, abort, and more", target, STRICT)
    assert finding is not None
    assert minimised(finding, target, STRICT) == b"abort"
    assert verdict(b"all is well", target, STRICT) is None


REPORT = """==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60200000 at pc 0x7f
SUMMARY: AddressSanitizer: heap-buffer-overflow memo.pxd:31 in memo_put
"""


def test_death_of_a_worker_is_described_by_its_report_or_signal() -> None:
    assert "heap-buffer-overflow memo.pxd:N in memo_put" in death(1, REPORT)
    assert death(1, REPORT) == death(1, REPORT.replace("0x60200000", "0x60200999"))
    assert "runtime error: shift" in death(1, "vm.c:9:3: runtime error: shift exponent 64 is too")
    assert death(-11, "") == "signal SIGSEGV"


def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(data: bytes) -> str:
        if len(data) > 5 and data[5] & 0x40:  # true for half of the inputs
            raise KeyError("planted")
        return "read"

    monkeypatch.setattr(command, "check", judge)
    monkeypatch.setattr(command, "check_against_python", lambda *_: None)


def test_command_reports_and_saves_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch)
    arguments = ["--workers", "2", "--inputs", "600", "--crashes", str(tmp_path)]
    assert command.main(arguments) == 1
    out = capsys.readouterr().out
    assert "*** KeyError in test_supervise.py:judge: 'planted'" in out
    assert "600 inputs in" in out
    raw, short = sorted(tmp_path.iterdir(), key=lambda path: -path.stat().st_size)
    assert len(short.read_bytes()) == 6
    assert f"again: make fuzz FUZZ_ARGS={os.path.relpath(raw)}" in out
    assert command.main([str(short)]) == 1
    assert "KeyError" in capsys.readouterr().out


def test_command_succeeds_without_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments: list[Any] = ["--inputs", 300, "--workers", 1, "--seed", 5, "--crashes", tmp_path]
    assert command.main(list(map(str, arguments))) == 0
    assert "0 findings" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
