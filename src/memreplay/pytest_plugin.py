"""The pytest plugin: `@pytest.mark.memreplay` records a test's device memory and gates it.

pytest loads this module through an entry point. Unless a test has the marker, it imports nothing
else and does nothing.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.gating.result import GateReport
    from memreplay.recording.session import Session

MARKER = "memreplay"
WIDTH = 100
MOST_EVENTS = 4_000_000  # takes a few GB of host memory; enough for any test that ends
_OWN_KEYS = ("base", "allow_untrusted")
# The marker's arguments for dry runs, the same as in dryrun/testing.py.
_DRY_KEYS = ("dryrun", "gpu", "total_memory", "gpus", "set", "timeout")
HELP = (
    "memreplay(max_peak=None, base=None, **limits): record the test's memory on CUDA or XPU"
    " devices, and fail the test if it exceeds a limit: max_peak='2GiB', max_growth='2%' over the"
    " base, max_growth_bytes, max_reserved, max_fragmentation, forbid_oom, forbid_leaks. Skipped"
    " without a device. With dryrun=True it doesn't need one: gpu='A100-80',"
    " total_memory='40GiB', gpus=2, set='expandable_segments:True', timeout=300."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("memreplay", "memory of CUDA and XPU devices")
    group.addoption(
        "--memreplay-keep",
        metavar="DIR",
        help="Keep the snapshot of each marked test in this folder.",
    )
    group.addoption(
        "--memreplay-update",
        action="store_true",
        help="Rewrite the baselines of marked tests from this run.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", HELP)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the markers, on any machine and before any test runs."""
    if hasattr(config, "workerinput"):  # pytest-xdist's workers wouldn't report the error
        return
    for item in items:
        marker = item.get_closest_marker(MARKER)
        if marker is not None:
            _wanted(item, marker)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Run a test marked dryrun=True in its own process, with its fixtures."""
    marker = item.get_closest_marker(MARKER)
    if (
        marker is None
        or marker.kwargs.get("dryrun") is not True
        or "MEMREPLAY_DRYRUN" in os.environ
    ):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _dry_reports(item, marker):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test if nothing can be recorded, before its fixtures run."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return
    try:
        _wanted(item, marker)
    except pytest.UsageError as error:
        pytest.fail(str(error), pytrace=False)
    reason = _find_device()[1]
    if reason:
        pytest.skip(reason)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Record a marked test, then check its limits."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        yield
        return
    device, _ = _find_device()
    with tempfile.TemporaryDirectory(prefix="memreplay-") as folder:
        path = Path(folder) / f"{_file_name(item.nodeid)}.pickle"
        session = _begin(path)
        path = Path(session.path)  # one folder per rank
        outcome = yield
        # unittest.TestCase doesn't propagate failures.
        failed = outcome.excinfo is not None or bool(getattr(item, "_excinfo", None))
        try:
            error = outcome.excinfo[1] if outcome.excinfo is not None else None
            _end(item, device, session, failed, error)
            kept = _keep(item, path)
        except Exception as error:
            if failed:  # the test's own failure is reported instead
                words = f"no snapshot: {type(error).__name__}: {error}"
                item.add_report_section("call", "memreplay", words)
            else:
                outcome.force_exception(error)
            return
        if failed:
            return
        problem = _judge(item, marker, path, kept)
        if problem:
            outcome.force_exception(pytest.fail.Exception(problem, pytrace=False))


# --- recording ------------------------------------------------------------------------------------


def _find_device() -> tuple[Any, str]:
    """Return torch's module for a recordable device, or why there is none."""
    from memreplay.recording.torch_here import find_torch

    torch, why = find_torch()
    if torch is None:
        return None, f"memreplay: {why}"
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is None or not module.is_available():
            continue
        if hasattr(module.memory, "_record_memory_history"):
            return module, ""
        return None, f"memreplay: this torch can't record {kind} memory"
    return None, "memreplay: no CUDA or XPU device"


def _begin(path: Path) -> Session:
    """Start recording with Python frames only, because C++ frames are slow to look up.

    Skip the test if torch doesn't support that, which its signature doesn't always show.
    """
    from memreplay.errors import UsageError
    from memreplay.recording.logs import keep_quiet
    from memreplay.recording.session import Session, Wanted

    session = Session(Wanted(path, max_entries=MOST_EVENTS, on_signal=False), keep_quiet)
    try:
        return session.__enter__()
    except UsageError as error:
        pytest.skip(f"memreplay: {error}")


def _end(
    item: pytest.Item,
    device: Any,
    session: Session,
    failed: bool,
    error: BaseException | None,
) -> None:
    """Write the recording. For a failed test, write it only on request.

    If the test ran out of memory, the snapshot is from that moment.
    """
    try:
        if not failed:
            device.synchronize()
        if not failed or item.config.getoption("--memreplay-keep"):
            session.finish(error)
    finally:
        session.stop()


def _file_name(nodeid: str) -> str:
    return re.sub(r"[^\w.-]+", "-", nodeid).strip("-.")[-120:] or "test"


def _keep(item: pytest.Item, path: Path) -> Path | None:
    """Return where to keep the snapshot; None if it isn't kept."""
    folder = item.config.getoption("--memreplay-keep")
    if not folder:
        return None
    import shutil

    os.makedirs(folder, exist_ok=True)
    kept = Path(shutil.copy(path, folder))
    item.add_report_section("call", "memreplay", f"snapshot: {kept}")
    return kept


# --- dry runs -------------------------------------------------------------------------------------


def _dry_reports(item: pytest.Item, marker: pytest.Mark) -> Generator[pytest.TestReport]:
    """Report setup, call and teardown, as pytest does for a test that it runs itself."""
    import time

    from memreplay.dryrun.testing import Tried, setup_of, tried
    from memreplay.errors import MemreplayError

    begun, clock = time.time(), time.perf_counter()
    try:
        _wanted(item, marker)
        setup = setup_of({key: marker.kwargs[key] for key in _DRY_KEYS if key in marker.kwargs})
        name = "::".join([str(item.path), *item.nodeid.split("::")[1:]])
        done = tried(name, _passed_on(item.config), setup)
    except (MemreplayError, pytest.UsageError) as error:
        done = Tried("failed", f"memreplay: {error}", ())
    took = time.perf_counter() - clock
    for when in ("setup", "call", "teardown"):
        called = when == "call"
        longrepr: Any = done.words if called and done.words else None
        if called and done.outcome == "skipped":
            longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {done.words}")
        yield pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome=done.outcome if called else "passed",  # type: ignore[arg-type]
            longrepr=longrepr,
            when=when,
            duration=took if called else 0.0,
            start=begun,
            stop=begun + took,
            user_properties=list(done.properties),
        )


def _passed_on(config: pytest.Config) -> list[str]:
    """Return the arguments passed on to the dry run's process."""
    # The name under which the plugin is loaded here. Without the plugin, the dry run wouldn't check
    # limits.
    plugin = config.pluginmanager.get_name(sys.modules[__name__])
    options = ["-p", str(plugin), f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    keep = config.getoption("--memreplay-keep")
    if keep:
        options.append(f"--memreplay-keep={os.path.abspath(keep)}")
    if config.getoption("--memreplay-update"):
        options.append("--memreplay-update")
    return options


# --- judging --------------------------------------------------------------------------------------


def _wanted(item: pytest.Item, marker: pytest.Mark) -> tuple[Budget, Path | None, bool]:
    """Return the marker's budget, its baseline, and whether to allow untrusted numbers.

    Raises pytest.UsageError for an invalid marker.
    """
    from memreplay.analysis.comparing.budgets import budget_of
    from memreplay.errors import UsageError

    where = f"@pytest.mark.{MARKER}"
    for node in item.listchain():
        if sum(one.name == MARKER for one in node.own_markers) > 1:
            raise pytest.UsageError(
                f"{item.nodeid}: {where} is given twice; give all limits in one"
            )
    if marker.args:
        raise pytest.UsageError(f"{item.nodeid}: {where} takes names: max_peak='2GiB'")
    own = (*_OWN_KEYS, *_DRY_KEYS)
    limits = {key: value for key, value in marker.kwargs.items() if key not in own}
    baseline = marker.kwargs.get("base")
    trusting = marker.kwargs.get("allow_untrusted", False)
    if baseline is not None and not isinstance(baseline, (str, os.PathLike)):
        raise pytest.UsageError(f"{item.nodeid}: {where}: base must be a path")
    if not isinstance(trusting, bool):
        raise pytest.UsageError(f"{item.nodeid}: {where}: allow_untrusted must be true or false")
    dry = marker.kwargs.get("dryrun", False)
    if not isinstance(dry, bool):
        raise pytest.UsageError(f"{item.nodeid}: {where}: dryrun must be true or false")
    unused = [key for key in _DRY_KEYS if key in marker.kwargs]
    if unused and not dry:
        raise pytest.UsageError(
            f"{item.nodeid}: {where}: {', '.join(unused)} only applies to dry runs; add dryrun=True"
        )
    try:
        # A dry run without limits is still useful, because it shows whether the program fits.
        budget = budget_of(limits or ({"forbid_oom": True} if dry else {}), where)
    except UsageError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    if budget.needs_base and baseline is None:
        raise pytest.UsageError(
            f"{item.nodeid}: {where} limits growth; give the base with base='base.json'"
        )
    return budget, None if baseline is None else item.path.parent / baseline, trusting


def _judge(item: pytest.Item, marker: pytest.Mark, path: Path, kept: Path | None) -> str:
    """Return the text about broken limits, or ""."""
    import memreplay
    from memreplay.errors import MemreplayError
    from memreplay.gating.reporting import gate_report

    budget, baseline, trusting = _wanted(item, marker)
    try:
        with memreplay.open(path) as snap:
            if not snap.devices:
                return ""  # the test didn't use the device, so it's within any limit
            if baseline is not None and item.config.getoption("--memreplay-update"):
                _write_baseline(snap, budget, baseline, trusting)
            report = gate_report([_gated(snap, budget, baseline, trusting)])
    except MemreplayError as error:
        return f"memreplay: {error}"
    except OSError as error:
        return f"memreplay: {error.filename}: {error.strerror}"
    for finding in report.files[0].findings:
        if finding.kind == "max_peak":
            name = f"memreplay_peak_{finding.measure}_bytes"
            item.user_properties.append((name, finding.actual_bytes))
    return "" if report.passed else _words(report, kept)


def _gated(snap: Any, budget: Budget, baseline: Path | None, trusting: bool) -> Any:
    from memreplay.gating.find import gate_file

    base = None if baseline is None else _read_baseline(baseline)
    return gate_file(snap, (budget,), base, allow_untrusted=trusting)


def _read_baseline(path: Path) -> Any:
    """Read a baseline for a comparison. Raises SnapshotError, OSError, UsageError."""
    from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, parse_baseline
    from memreplay.analysis.comparing.sides import BaselineSide
    from memreplay.errors import UsageError

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"there is no baseline {path}; create it with pytest --memreplay-update"
        ) from None
    return BaselineSide(parse_baseline(data), str(path))


def _write_baseline(snap: Any, budget: Budget, path: Path, trusting: bool) -> None:
    from memreplay.analysis.comparing.baseline import baseline_of
    from memreplay.gating.base_lines import render_baseline
    from memreplay.gating.find import doubts
    from memreplay.io.whole import whole_file

    made = baseline_of(snap, measure=budget.measure, budgets=(budget,))
    if not trusting and any(
        doubts(one.reasons[budget.measure], strict=True) for one in made.devices
    ):
        return  # the gate's report says why
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(f"{render_baseline(made)}\n".encode())


def _words(report: GateReport, kept: Path | None) -> str:
    """Return the summary line, the limits, and the groups that broke them."""
    from memreplay.gating.text import gate_document
    from memreplay.render.plain import render_plain

    # Skip the first heading, which names a file that will be deleted.
    text = render_plain(gate_document(report)[1:], width=WIDTH).strip("\n")
    where = (
        f"snapshot: {kept}"
        if kept is not None
        else "--memreplay-keep=DIR keeps the snapshot, for memreplay peak and diff"
    )
    return f"{report.headline}\n\n{text}\n\n{where}"
