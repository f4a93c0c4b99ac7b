"""Tests of pytest_plugin.py, in nested pytest runs, with a stand-in for torch.

The stand-in has torch's names and dumps a snapshot that the test describes: the plugin is
tested, not a GPU.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import memreplay
from tests.conftest import ROOT

pytest_plugins = ["pytester"]

# The dumped snapshot has one alloc for each size in HELD, kept until FREE is called. torch.log
# lists the calls.
FAKE_TORCH = """
import json, sys
from types import SimpleNamespace

log = []
events = []
recording = False
frames = [{"name": "forward", "filename": "/src/model.py", "line": 212}]


def alloc(size):
    events.append({"action": "alloc", "addr": 4096 * (len(events) + 1), "size": size,
                   "stream": 0, "frames": frames, "time_us": len(events) + 1})


__version__ = "2.15.0"


def record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    log.append(["record", enabled, stacks])
    if enabled is not None:
        events.clear()


def snapshot():
    log.append(["dump"])
    blocks = [{"address": e["addr"], "size": e["size"], "requested_size": e["size"],
               "state": "active_allocated", "frames": frames} for e in events]
    segments = [{"device": 0, "address": b["address"], "total_size": b["size"],
                 "allocated_size": b["size"], "active_size": b["size"],
                 "requested_size": b["size"], "stream": 0, "segment_type": "large",
                 "frames": [], "blocks": [b]} for b in blocks]
    return {"segments": segments, "device_traces": [list(events)]}


def module(there):
    return SimpleNamespace(
        is_available=lambda: there,
        synchronize=lambda: log.append(["synchronize"]),
        device_count=lambda: 1,
        get_device_properties=lambda i: SimpleNamespace(name="card", total_memory=1 << 30),
        memory=SimpleNamespace(_record_memory_history=record, _snapshot=snapshot),
    )


cuda = module(CUDA)
xpu = module(XPU)
"""


@pytest.fixture
def gpu(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    return with_torch(pytester, monkeypatch, cuda=True)


def with_torch(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cuda: bool = False,
    xpu: bool = False,
) -> pytest.Pytester:
    text = FAKE_TORCH.replace("CUDA)", f"{cuda})").replace("XPU)", f"{xpu})")
    home = pytester.mkdir("fake")
    (home / "torch.py").write_text(text)
    source = str(Path(memreplay.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home), source]))
    # Tests within the same second would create files with the same name, size and time, so Python
    # would use the first one's bytecode for all.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in ("COLUMNS", "FORCE_COLOR", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def run(pytester: pytest.Pytester, test: str, *args: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=f"import pytest, torch\n\n{test}")
    # A development checkout may have been installed before the plugin was declared.
    declared = any(one.value == "memreplay.pytest_plugin" for one in entry_points(group="pytest11"))
    early = () if declared else ("-p", "memreplay.pytest_plugin")
    # Importing hypothesis takes three times as long as the rest of this run.
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return pytester.runpytest_subprocess(*early, *without, *args)


def test_entry_point_is_declared() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nmemreplay = "memreplay.pytest_plugin"\n' in text


def test_peak_within_the_limit_passes(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peak="2 KiB")
def test_step():
    torch.alloc(1024)
    torch.alloc(1024)

def test_log():
    assert torch.log == [
        ["record", "all", "python"], ["synchronize"], ["dump"], ["record", None, "all"]]
""",
        "--strict-markers",
        "--junit-xml=junit.xml",
    )
    result.assert_outcomes(passed=2)
    xml = (gpu.path / "junit.xml").read_text()
    assert '<property name="memreplay_peak_held_bytes" value="2048"' in xml


@pytest.mark.slow
def test_no_leaks_fails_with_too_few_steps(gpu: pytest.Pytester) -> None:
    """A test that couldn't check anything hasn't passed."""
    result = run(
        gpu,
        """
@pytest.mark.memreplay(forbid_leaks=True)
def test_step():
    torch.alloc(1024)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["FAIL forbid-leaks couldn't be checked: no steps were found*"])


@pytest.mark.slow
def test_unsupported_torch_skips_the_test(gpu: pytest.Pytester) -> None:
    """PyTorch 2.0 is such a version."""
    torch = gpu.path / "fake" / "torch.py"
    text = torch.read_text()
    old = "def record(enabled=True, record_context=True, trace_alloc_max_entries=1):"
    start = text.index("def record(")
    torch.write_text(text[:start] + old + text[text.index("\n", start) :])
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peak="2 KiB")
def test_step():
    torch.alloc(1024)

def test_after():
    assert torch.log == []
""",
        "-rs",
    )
    result.assert_outcomes(skipped=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*memreplay: this torch is too old to record; upgrade to 2.1 or later*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_peak_over_the_limit_fails(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peak="1 KiB")
def test_step():
    torch.alloc(1000)
    torch.alloc(1000)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "FAIL peak held 2.0 KiB > 1 KiB (most of it: 2.0 KiB in forward model.py:212)",
            "*largest holders*",
            "*forward  /src/model.py:212*",
            "--memreplay-keep=DIR keeps the snapshot, *",
        ]
    )
    # Neither the plugin's own code nor a deleted file is shown.
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*.pickle*")


@pytest.mark.slow
def test_growth_over_a_baseline_fails(gpu: pytest.Pytester) -> None:
    test = """
@pytest.mark.memreplay(max_growth="10%", base="bases/step.json")
def test_step():
    for _ in range(SIZE):
        torch.alloc(1 << 20)
"""
    (gpu.path / "bases").mkdir()
    result = run(gpu, test.replace("SIZE", "10"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["memreplay: there is no baseline *; create it with pytest --memreplay-update*"]
    )
    run(gpu, test.replace("SIZE", "10"), "--memreplay-update").assert_outcomes(passed=1)
    made = json.loads((gpu.path / "bases" / "step.json").read_text())
    assert made["schema"] == "memreplay.baseline/1"
    assert os.listdir(gpu.path / "bases") == ["step.json"]
    run(gpu, test.replace("SIZE", "11")).assert_outcomes(passed=1)
    result = run(gpu, test.replace("SIZE", "12"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["FAIL *2.0 MiB in forward model.py:212)", "*largest growth*"])


@pytest.mark.slow
def test_broken_baseline_takes_one_line(gpu: pytest.Pytester) -> None:
    (gpu.path / "base.json").write_text('{"schema": "memreplay.baseline/1", "devices": 7}')
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_growth="10%", base="base.json")
def test_step():
    torch.alloc(1024)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["memreplay: *"])


@pytest.mark.slow
def test_snapshot_is_kept(gpu: pytest.Pytester) -> None:
    test = """
@pytest.mark.memreplay(max_peak="1 KiB")
@pytest.mark.parametrize("n", [1, 2])
def test_step(n):
    torch.alloc(1024 * n)

@pytest.mark.memreplay(max_peak="1 GiB")
def test_that_fails():
    torch.alloc(1024)
    raise RuntimeError("out of memory")
"""
    result = run(gpu, test, "--memreplay-keep=kept")
    result.assert_outcomes(passed=1, failed=2)
    kept = sorted(os.listdir(gpu.path / "kept"))
    assert kept == [
        "test_it.py-test_step-1.pickle",
        "test_it.py-test_step-2.pickle",
        "test_it.py-test_that_fails.pickle",
    ]
    result.stdout.fnmatch_lines(["snapshot: kept/test_it.py-test_step-2.pickle"])
    result.stdout.fnmatch_lines(["*RuntimeError: out of memory"])
    assert memreplay.open(gpu.path / "kept" / kept[1]).replay(0).peak.bytes == 2048


@pytest.mark.slow
def test_failing_test_is_not_judged(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peak='1B')
def test_step():
    torch.alloc(1024)
    assert False, "its own"

def test_log():
    assert torch.log == [["record", "all", "python"], ["record", None, "all"]]
""",
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*its own*"])
    result.stdout.no_fnmatch_line("*FAIL peak*")


@pytest.mark.slow
def test_no_allocation_passes_any_limit(gpu: pytest.Pytester) -> None:
    test = "@pytest.mark.memreplay(max_peak=0)\ndef test_step():\n    pass\n"
    run(gpu, test).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize("cuda, xpu, reason", [(False, True, ""), (False, False, "no CUDA or XPU")])
def test_xpu_is_used_and_a_missing_device_skips_the_test(
    cuda: bool,
    xpu: bool,
    reason: str,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_torch(pytester, monkeypatch, cuda=cuda, xpu=xpu)
    test = """
@pytest.fixture
def costly():
    assert torch.cuda.is_available() or torch.xpu.is_available()

@pytest.mark.memreplay(max_peak="1 KiB")
def test_step(costly):
    torch.alloc(2048)
"""
    result = run(pytester, test, "-rs")
    if reason:
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines([f"SKIPPED*memreplay: {reason} device"])
    else:
        result.assert_outcomes(failed=1)


@pytest.mark.slow
def test_missing_torch_skips_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_torch(pytester, monkeypatch)
    (pytester.path / "fake" / "torch.py").write_text("raise ImportError('no torch')")
    pytester.makepyfile(
        "import pytest\n\n@pytest.mark.memreplay(max_peak='1B')\ndef test_step():\n    pass\n"
    )
    declared = any(one.value == "memreplay.pytest_plugin" for one in entry_points(group="pytest11"))
    early = () if declared else ("-p", "memreplay.pytest_plugin")
    result = pytester.runpytest_subprocess(*early, "-rs")
    result.assert_outcomes(skipped=1)
    why = "torch is installed, but importing it failed: ImportError: no torch"
    result.stdout.fnmatch_lines([f"SKIPPED*memreplay: {why}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, words",
    [
        ("", "sets no limit; give one of max_peak, "),
        ("'2GiB'", "takes names: max_peak='2GiB'"),
        ("max_peak='lots'", "max_peak: 'lots' is not a size"),
        ("max_peek='2GiB'", "unknown key 'max_peek'; known keys: "),
        ("max_growth='2%'", "limits growth; give the base with base='base.json'"),
        ("max_peak='1B', base=3", "base must be a path"),
        ("max_peak='1B', allow_untrusted='no'", "allow_untrusted must be true or false"),
    ],
)
def test_wrong_marker_is_reported_on_any_machine(
    arguments: str, words: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_torch(pytester, monkeypatch)
    test = f"@pytest.mark.memreplay({arguments})\ndef test_step():\n    pass\n"
    result = run(pytester, test)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stderr.str()
    assert told.startswith("ERROR: test_it.py::test_step: @pytest.mark.memreplay")
    assert words in told
    assert told.count("\n") <= 2


@pytest.mark.slow
def test_nothing_is_imported_without_markers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_torch(pytester, monkeypatch, cuda=True)
    pytester.makepyfile(
        """
import sys

def test_modules():
    loaded = {name for name in sys.modules if name.partition(".")[0] in ("memreplay", "torch")}
    assert loaded == {"memreplay", "memreplay.pytest_plugin"}
    assert "numpy" not in sys.modules
"""
    )
    declared = any(one.value == "memreplay.pytest_plugin" for one in entry_points(group="pytest11"))
    early = () if declared else ("-p", "memreplay.pytest_plugin")
    pytester.runpytest_subprocess(*early).assert_outcomes(passed=1)


@pytest.mark.slow
def test_plugin_does_almost_nothing_without_markers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts calls, because they take the same number of instructions every time. Importing the
    module and its hooks for no test take less than a millisecond.
    """
    with_torch(pytester, monkeypatch, cuda=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    pytester.makepyfile("".join(f"def test_{i}(): pass\n" for i in range(100)))
    pytester.makepyfile(
        run="""
import sys
import pytest

calls = 0

def count(frame, event, _):
    global calls
    calls += event == "call" and "memreplay" in frame.f_globals.get("__name__", "").split(".")

sys.setprofile(count)
pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
sys.setprofile(None)
print("calls", calls)
"""
    )
    found = [
        int(
            pytester.runpython_c(f"import sys; sys.argv[1:] = {more!r}; import run")
            .outlines[-1]
            .split()[1]
        )
        for more in (["--collect-only"], [])
    ]
    collected, ran = found
    assert 0 < collected <= 20
    assert ran - collected <= 400  # 100 tests


@pytest.mark.slow
@pytest.mark.parametrize("call", ["cuda.synchronize", "cuda.memory._snapshot"])
def test_failing_device_fails_the_test(gpu: pytest.Pytester, call: str) -> None:
    """The device fails as after a device-side assertion, which appears at the next
    synchronization.
    """
    result = run(
        gpu,
        f"""
def broken(*args):
    raise RuntimeError("device-side assert")

@pytest.mark.memreplay(max_peak="1 GiB")
def test_step():
    torch.alloc(1024)
    torch.{call} = broken

def test_log():
    assert torch.log[-1] == ["record", None, "all"]
""",
        "-W",
        "error",
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E *RuntimeError: device-side assert"])
    result.stdout.no_fnmatch_line("*PluggyTeardownRaisedWarning*")


@pytest.mark.slow
def test_own_failure_is_reported_even_if_no_snapshot_can_be_kept(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
def broken():
    raise RuntimeError("no dump")

@pytest.mark.memreplay(max_peak="1 GiB")
def test_step():
    torch.cuda.memory._snapshot = broken
    assert False, "its own"
""",
        "--memreplay-keep=kept",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *its own*", "no snapshot: RuntimeError: no dump"])


@pytest.mark.slow
def test_failing_unittest_is_not_judged(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
import unittest

@pytest.mark.memreplay(max_growth="1%", base="base.json")
class TestStep(unittest.TestCase):
    def test_fails(self):
        torch.alloc(1024)
        self.fail("its own")

    def test_is_skipped(self):
        torch.alloc(1024)
        self.skipTest("for now")
""",
        "--memreplay-update",
    )
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*its own*"])
    assert not (gpu.path / "base.json").exists()


@pytest.mark.slow
def test_closest_marker_wins(gpu: pytest.Pytester) -> None:
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peak="1 KiB")
class TestStep:
    @pytest.mark.memreplay(max_peak="4 KiB")
    def test_large(self):
        torch.alloc(2048)

    def test_small(self):
        torch.alloc(2048)

    @pytest.mark.xfail(strict=True)
    def test_known(self):
        torch.alloc(2048)
""",
    )
    result.assert_outcomes(passed=1, failed=1, xfailed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "decorators",
    [
        "@pytest.mark.memreplay(max_peak='1B')\n@pytest.mark.memreplay(max_peak='2B')",
        """@pytest.mark.memreplay(max_peak='1B')
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.memreplay(max_peak='2B'))])""",
    ],
)
def test_two_markers_are_refused(gpu: pytest.Pytester, decorators: str) -> None:
    argument = "n" if "parametrize" in decorators else ""
    result = run(gpu, f"{decorators}\ndef test_step({argument}):\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *@pytest.mark.memreplay is given twice; *"])


@pytest.mark.slow
def test_untrustworthy_baseline_is_not_written(gpu: pytest.Pytester) -> None:
    """The trace frees blocks that never existed, so an update would write meaningless numbers."""
    test = """
@pytest.mark.memreplay(max_growth="1%", base="new/base.json"OPTIONS)
def test_step():
    torch.alloc(1024)
    torch.events.append({"action": "free_completed", "addr": 1, "size": 7, "stream": 0,
                         "frames": [], "time_us": 9})
    torch.events.append({"action": "free_completed", "addr": 1, "size": 7, "stream": 0,
                         "frames": [], "time_us": 10})
"""
    result = run(gpu, test.replace("OPTIONS", ""), "--memreplay-update")
    result.assert_outcomes(failed=1)
    assert not (gpu.path / "new").exists()
    result = run(gpu, test.replace("OPTIONS", ", allow_untrusted=True"), "--memreplay-update")
    result.assert_outcomes(passed=1)
    assert (gpu.path / "new" / "base.json").exists()


@pytest.mark.slow
def test_wrong_marker_in_a_worker_fails_its_test(gpu: pytest.Pytester) -> None:
    """If a pytest-xdist worker ends its session, the whole run ends silently."""
    gpu.makeconftest("def pytest_configure(config):\n    config.workerinput = {}\n")
    result = run(
        gpu,
        """
@pytest.mark.memreplay(max_peek=1)
def test_step():
    torch.alloc(1024)

def test_other():
    assert torch.log == []
""",
    )
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.memreplay: unknown key 'max_peek'; known keys: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
