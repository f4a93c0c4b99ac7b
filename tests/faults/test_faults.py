"""A short version of `python -m tests.faults`: some calls fail and some commands are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faults import HOWS, faults, spread
from tests.faults.judging import judged
from tests.faults.kills import Kill, at_calls, killed
from tests.faults.running import ROOT, Outcome, Runner, runner
from tests.faults.scenarios import DATA, OLD, SCENARIOS, Scenario
from tests.faults.shim import GROUPS, Counted, Fault, blank, compiled, counted, environment
from tests.faults.shim import is_possible as shim_is_possible

needs_shim = pytest.mark.skipif(
    not shim_is_possible(), reason="this needs Linux with glibc, and gcc"
)


def scenario(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with runner(tmp_path_factory.mktemp("faults")) as ready:
        yield ready


def struck(run: Runner, one: Scenario, most: int, memory: int) -> dict[str, int]:
    """Return how often each outcome occurred."""
    base = run.run(one)
    assert base.exit == one.exits, base.err
    old = dict.fromkeys(one.old, OLD)
    found: dict[str, int] = {}
    for fault in faults(base.counted.calls, most, memory):
        done = run.run(one, fault)
        outcome = judged(one, old, base, fault, done)
        assert not outcome.startswith("wrong"), f"{fault}: {outcome}\n{done.err}"
        found[outcome] = found.get(outcome, 0) + 1
    return found


@needs_shim
@pytest.mark.parametrize("name", ["peak of stdin", "slice", "convert"])
def test_failing_calls_give_the_same_result_or_an_error(run: Runner, name: str) -> None:
    found = struck(run, scenario(name), most=2, memory=4)
    assert found["same"] > 5
    assert found["error"] > 5


@needs_shim
def test_a_single_failed_allocation_never_changes_numbers(run: Runner) -> None:
    """A bug once left half of a name behind, which became a prefix of the next name."""
    one = scenario("dump")
    base = run.run(one)
    for at in spread(base.counted.calls["malloc"], 60):
        fault = Fault("malloc", "ENOMEM", at)
        done = run.run(one, fault)
        assert not judged(one, {}, base, fault, done).startswith("wrong"), fault


@needs_shim
def test_killed_writer_leaves_old_or_complete_files(run: Runner) -> None:
    one = scenario("slice")
    run.run(one)
    base = run.run(one)
    kills = list(at_calls(base.counted.calls))
    outcomes = [killed(run, one, base, kills[at]) for at in spread(len(kills), 12)]
    outcomes += [killed(run, one, base, Kill(seconds=at / 100)) for at in range(1, 6)]
    assert not [one for one in outcomes if one[0].startswith("wrong")]
    assert [one for one, _ in outcomes].count("killed") >= 12


@needs_shim
def test_faults_during_startup_give_the_same_result_or_an_error(tmp_path: Path) -> None:
    """This test runs a fresh process instead of a fork, so calls during startup can fail too."""
    shared = tmp_path / "shared"
    under = tmp_path / "work"
    under.mkdir()
    (under / "snap.pkl.gz").write_bytes((DATA / "recorded_gpt.pkl.gz").read_bytes())
    env = {**os.environ, "LD_PRELOAD": str(compiled(tmp_path))}
    command = [sys.executable, "-m", "memreplay", "peak", str(under / "snap.pkl.gz")]

    def ran(fault: Fault | None) -> subprocess.CompletedProcess[bytes]:
        blank(shared)
        more = environment(under, shared, fault)
        return subprocess.run(
            command, env={**env, **more}, cwd=ROOT, capture_output=True, check=False, timeout=60
        )

    whole = ran(None)
    assert (whole.returncode, whole.stderr) == (0, b"")
    assert counted(shared).calls["read"] > 1
    for how in ("EINTR", "short"):
        again = ran(Fault("read", how, 1))
        assert (again.returncode, again.stdout, counted(shared).fired) == (0, whole.stdout, 1)
    full = ran(Fault("write", "ENOSPC", 0))
    assert (full.returncode, full.stdout) == (2, b"")
    assert full.stderr == b"memreplay: error: can't write the output: no space left on device\n"


@needs_shim
@pytest.mark.parametrize(
    "name, how, whose",
    [
        ("_core.so", "*(volatile int *) 8 = 1", "ours"),
        ("_core.so", "abort()", "ours"),
        ("other.so", "*(volatile int *) 8 = 1", "theirs"),
        ("other.so", "abort()", "theirs"),
        ("other.so", "raise(SIGKILL)", ""),
    ],
)
def test_crash_is_attributed_to_the_library_that_caused_it(
    tmp_path: Path, name: str, how: str, whose: str
) -> None:
    made, shared = tmp_path / name, tmp_path / "shared"
    source = f"#include <signal.h>\n#include <stdlib.h>\nint crash(void) {{ {how}; return 1; }}\n"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(made)]
    subprocess.run(command, input=source, text=True, check=True)
    blank(shared)
    env = {**os.environ, "LD_PRELOAD": str(compiled(tmp_path)), **environment(tmp_path, shared)}
    code = f"import ctypes; ctypes.CDLL({str(made)!r}).crash()"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], env=env, check=False)
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGKILL)
    assert counted(shared).crash == whose


# ---- the judge ----------------------------------------------------------------------------------


def outcome(
    code: int = 0,
    out: bytes = b"",
    err: str = "",
    files: dict[str, bytes] | None = None,
    on_output: bool = False,
    fired: int = 1,
    crash: str = "",
) -> Outcome:
    calls = dict.fromkeys(GROUPS, 0)
    return Outcome(code, out, err, files or {}, Counted(fired, on_output, crash, calls))


ONE = Scenario("one", "slice {in}/a -o {out}/x", ("x",))
WHOLE = {"x": b"new"}
BEFORE = {"x": OLD}
LINE = "memreplay: error: x: no\n"
PART = ".memreplay-01234567-0123456789ab.part"


@pytest.mark.parametrize(
    "how, run, verdict",
    [
        ("ENOSPC", outcome(2, err=LINE, files=BEFORE), "error"),
        ("ENOSPC", outcome(0, files=WHOLE), "same"),
        ("ENOSPC", outcome(0, files=WHOLE, fired=0), "missed"),
        ("ENOSPC", outcome(0, files=WHOLE, on_output=True), "passed over"),
        ("ENOSPC", outcome(2, err=LINE, files={"x": b"ne"}), "neither old nor new"),
        ("ENOSPC", outcome(2, err=LINE, files={}), "lost: x"),
        ("ENOSPC", outcome(2, err=LINE, files={**BEFORE, PART: b""}), "left behind"),
        ("ENOSPC", outcome(2, err="", files=BEFORE), "0 lines"),
        ("ENOSPC", outcome(2, err=2 * LINE, files=BEFORE), "2 lines"),
        ("ENOSPC", outcome(2, err=f"Traceback\n{LINE}", files=BEFORE), "'Traceback'"),
        ("ENOSPC", outcome(1, err=LINE, files=BEFORE), "exit 1"),
        ("ENOSPC", outcome(0, files=BEFORE), "exit 0, and not the same"),
        ("ENOSPC", outcome(2, out=b"half", err=LINE, files=BEFORE), "neither whole nor empty"),
        ("ENOSPC", outcome(-11, files=BEFORE), "signal 11"),
        ("EINTR", outcome(2, err=LINE, files=BEFORE), "not the same"),
        ("short", outcome(0, files={"x": b"ne"}), "not the same"),
        ("short", outcome(0, files=WHOLE, on_output=True), "same"),
    ],
)
def test_judge_reports_wrong_outcomes(how: str, run: Outcome, verdict: str) -> None:
    base = outcome(files=WHOLE, fired=0)
    assert verdict in judged(ONE, BEFORE, base, Fault("write", how, 0), run)


@pytest.mark.parametrize(
    "crash, verdict", [("theirs", "theirs"), ("ours", "wrong: signal 11"), ("", "wrong: signal 11")]
)
def test_out_of_memory_crash_is_excused_only_in_third_party_code(crash: str, verdict: str) -> None:
    run = outcome(-signal.SIGSEGV, files=BEFORE, crash=crash)
    assert (
        judged(ONE, BEFORE, outcome(files=WHOLE, fired=0), Fault("memory", "ENOMEM", 0), run)
        == verdict
    )


def test_faults_are_spread_over_the_calls() -> None:
    assert spread(3, 9) == [0, 1, 2]
    assert spread(100, 3) == [0, 49, 99]
    assert spread(100, 1) == [50]
    found = list(faults({"write": 5, "malloc": 100}, 3, 4))
    assert [one.at for one in found if one.group == "malloc"] == [0, 33, 66, 99]
    assert len(found) == 3 * len(HOWS["write"]) + 4 * len(HOWS["malloc"])
