"""The option `--quick`: leave out tests marked `slow`, and try fewer random examples."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Tests of the project's own tools, tests that need uncommon programs or many threads, processes or
# failures, and tests with real files or an object store.
FOLDERS = frozenset(
    (
        *("bench", "browser", "faults", "fuzz", "graphs", "guided", "helpers", "mutants"),
        *("recording", "threads", "truth"),
    )
)
MARKS = ("slow", "browser", "viewers")
FIXTURES = frozenset(("corpus", "corpus_file", "proxy", "store"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="without the tests that are marked slow, and with a tenth of the random examples;"
        " but all of what is asked for by name (-k, -m, --lf, a file or a folder)",
    )


def is_quick(config: pytest.Config) -> bool:
    """Return whether slow tests are left out: the option is given, and no test is named on the
    command line.
    """
    options = config.option
    named = options.keyword or options.markexpr or getattr(options, "lf", False)
    return bool(options.quick and not named and config.args in (["tests"], ["tests/"]))


def pytest_configure(config: pytest.Config) -> None:
    """Reduce the number of examples before any test file is imported, because tests may compute
    their own number from it.
    """
    if is_quick(config):
        settings.load_profile("quick")


def _is_slow(item: pytest.Item) -> bool:
    folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    return (
        folder in FOLDERS
        or any(item.get_closest_marker(mark) for mark in MARKS)
        or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests."""
    if not is_quick(config):
        return
    slow = [item for item in items if _is_slow(item)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not _is_slow(item)]


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report that some tests are left out."""
    if not is_quick(config):
        return None
    return "quick: without slow tests, with a tenth of the random examples (make test-all: all)"
