"""Configuration and fixtures for all tests: time zone, hypothesis profiles, real files, repository
root.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.quick", "tests.bare"]

ROOT = Path(__file__).resolve().parent.parent
# Results are hard-coded only for simulated files; the examples are real recordings.
SNAPSHOTS = sorted([*ROOT.glob("tests/data/*.pkl.gz"), *ROOT.glob("examples/**/*.pkl.gz")])
NO_CORPUS = "no real snapshots: MEMREPLAY_CORPUS names no folder of them"

# Modules that can't be imported on Windows because they use terminals, memory limits or signals.
collect_ignore = [
    "bench/test_compare.py",
    "bench/test_instructions.py",
    "bench/test_startup.py",
    "fuzz/test_supervise.py",
    "integration/test_cli.py",
    "unit/commands/dryrun/test_command.py",
    "unit/explore/test_command.py",
    "unit/commands/record/test_command.py",
    "unit/workers/test_worker.py",
]
if os.name == "posix":
    collect_ignore.clear()

# A shell's background job ignores SIGINT, and children inherit that, so tests couldn't interrupt
# the commands they start. Unlike an ignored signal, a handler isn't inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# All times are printed in UTC. Tests run in another time zone, because a wrong zone wouldn't be
# noticed in UTC. The time zone is set before any import that reads it, and for child processes too.
os.environ["TZ"] = os.environ.get("MEMREPLAY_TZ", "Asia/Kathmandu")
if hasattr(time, "tzset"):  # Windows has neither this function nor these zone names
    time.tzset()

# No deadlines, because they'd measure the machine rather than the code. MEMREPLAY_PROFILE=thorough
# searches longer.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile(
    "thorough",
    deadline=None,
    print_blob=True,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
# The profile for .ci/run on few processors. Each run tries different examples, and the nightly run
# tries more of them.
settings.register_profile("brief", deadline=None, print_blob=True, max_examples=30)
# The profile for runs that measure coverage rather than look for bugs.
settings.register_profile("few", deadline=None, print_blob=True, max_examples=5)
# The profile for --quick: a tenth of the usual number of examples. tests.examples scales the number
# in tests that set their own.
settings.register_profile("quick", deadline=None, print_blob=True, max_examples=10)
settings.load_profile(os.environ.get("MEMREPLAY_PROFILE", "ci"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a large parameter by its beginning and length. pytest would escape each of its
    characters, which takes hours under ASan, and print and send the name many times.
    """
    if isinstance(val, str | bytes) and len(val) > 1000:
        return f"{val[:20]!r} and so on, {len(val)} in all"
    return None


def pytest_collection_finish() -> None:
    """Freeze the thousands of collected tests, so that each garbage collection takes a fraction of
    the time.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Report the time zone, which no test may depend on, and whether this machine knows it."""
    return f"time zone: {os.environ['TZ']} (MEMREPLAY_TZ), UTC{time.strftime('%z')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects plain unit tests of Python modules."""
    parser.addoption(
        "--plain",
        choices=("only", "without"),
        help="only the tests that coverage traces, or all others: those in the folders of"
        " tests/unit, but for tests of native modules, of real files, with viewers, and by"
        " hypothesis",
    )


@pytest.hookimpl(trylast=True)  # must run after hypothesis, which marks its tests in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that `--plain` excludes."""
    asked = config.getoption("plain")
    if asked is None:
        return
    left_out = [item for item in items if _is_plain(item) != (asked == "only")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _is_plain(item) == (asked == "only")]


def _is_plain(item: pytest.Item) -> bool:
    folder = item.path.relative_to(ROOT / "tests").parts[:2]
    fixtures = getattr(item, "fixturenames", ())
    return (
        folder[0] == "unit"
        and folder[1] != "engine"
        and not {"corpus", "corpus_file"} & set(fixtures)
        and not any(item.get_closest_marker(name) for name in ("hypothesis", "viewers"))
    )


def corpus_files() -> list[Path]:
    """Return the real snapshots in MEMREPLAY_CORPUS, sorted; [] if it isn't set."""
    folder = os.environ.get("MEMREPLAY_CORPUS")
    if not folder:
        return []
    return sorted(path for path in Path(folder).iterdir() if path.suffix in (".pickle", ".pkl"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with `corpus_file` once for each real snapshot, or skip it."""
    if "corpus_file" not in metafunc.fixturenames:
        return
    files = corpus_files()
    if files:
        metafunc.parametrize("corpus_file", files, ids=[path.stem for path in files])
    else:
        skip = pytest.mark.skip(reason=NO_CORPUS)
        metafunc.parametrize("corpus_file", [pytest.param(None, marks=skip, id="none")])


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real snapshots in MEMREPLAY_CORPUS; skip if it isn't set."""
    if not corpus_files():
        pytest.skip(NO_CORPUS)
    return Path(os.environ["MEMREPLAY_CORPUS"])


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root."""
    return ROOT
