"""What all tests share: the time zone, hypothesis's profile, the corpus of real files, the root."""

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
# Those that tests know by heart are simulated; the examples are real.
SNAPSHOTS = sorted([*ROOT.glob("tests/data/*.pkl.gz"), *ROOT.glob("examples/**/*.pkl.gz")])
NO_CORPUS = "no real snapshots: MEMREPLAY_CORPUS names no folder of them"

# What Windows cannot even load: terminals, bounds of memory, signals.
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

# A job that a shell runs in the background ignores SIGINT, and so would the commands that tests
# start and interrupt: of a handler nothing is left to them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is said of times is UTC wherever one is: where that is not so, no test that runs in UTC would
# notice. Set before anything is loaded that looks at it, and for what tests start as well.
os.environ["TZ"] = os.environ.get("MEMREPLAY_TZ", "Asia/Kathmandu")
if hasattr(time, "tzset"):  # Windows has none, and no such names of zones
    time.tzset()

# Deadlines measure the machine, not the code. MEMREPLAY_PROFILE=thorough looks for longer.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile(
    "thorough",
    deadline=None,
    print_blob=True,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
# Of .ci/run on few processors; each run takes others, and the nightly run all of them and more.
settings.register_profile("brief", deadline=None, print_blob=True, max_examples=30)
# For runs that look for what is executed, not for what is wrong.
settings.register_profile("few", deadline=None, print_blob=True, max_examples=5)
# Of --quick: a tenth of the usual number; tests.examples does the same where a test says how many.
settings.register_profile("quick", deadline=None, print_blob=True, max_examples=10)
settings.load_profile(os.environ.get("MEMREPLAY_PROFILE", "ci"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a large parameter by its beginning and length. pytest escapes each of its characters,
    which takes hours under ASan, and prints and sends the name many times."""
    if isinstance(val, str | bytes) and len(val) > 1000:
        return f"{val[:20]!r} and so on, {len(val)} in all"
    return None


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: without them each collection takes a fraction."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """The zone, which no test is to depend on; and whether this machine knows it."""
    return f"time zone: {os.environ['TZ']} (MEMREPLAY_TZ), UTC{time.strftime('%z')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that tells plain unit tests of Python modules from all others."""
    parser.addoption(
        "--plain",
        choices=("only", "without"),
        help="only the tests that coverage traces, or all others: those in the folders of"
        " tests/unit, but for tests of native modules, of real files, with viewers, and by"
        " hypothesis",
    )


@pytest.hookimpl(trylast=True)  # hypothesis marks its tests here, too
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--plain` does not ask for."""
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
    """Real snapshots in the folder that MEMREPLAY_CORPUS names, sorted; [] without one."""
    folder = os.environ.get("MEMREPLAY_CORPUS")
    if not folder:
        return []
    return sorted(path for path in Path(folder).iterdir() if path.suffix in (".pickle", ".pkl"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `corpus_file` once for each real snapshot, or skip it."""
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
    """The folder of real snapshots that MEMREPLAY_CORPUS names; skips where there is none."""
    if not corpus_files():
        pytest.skip(NO_CORPUS)
    return Path(os.environ["MEMREPLAY_CORPUS"])


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT
