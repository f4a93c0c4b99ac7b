"""The option `--bare` skips tests whose packages aren't installed; without it they fail.

Normally all of [dev] must be installed, so that no test is skipped unnoticed. `--bare` is for a
wheel installed with `[test]`. A test is skipped if it imports a missing package, directly or not;
if a command in it reports a missing extra; or if it needs a compiler and there is none.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.util import find_spec
from shutil import which
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Packages in [dev] but not in [test], by import name.
PACKAGES = (
    "Cython",
    "IPython",
    "aiobotocore",
    "botocore",
    "dask",
    "distributed",
    "duckdb",
    "flask",
    "fsspec",
    "google",
    "matplotlib",
    "mcp",
    "mcp_types",
    "moto",
    "mypy",
    "pandas",
    "perfetto",
    "polars",
    "pyarrow",
    "pynvml",
    "s3fs",
    "setuptools",
    "textual",
    "xmlschema",
    "yaml",
    "zstandard",
)
COMPILERS = ("gcc", "cc")
# Maps each extra, as named in an error message, to one of its packages.
EXTRAS = {
    "explore": "textual",
    "fleet": "distributed",
    "mcp": "mcp",
    "parquet": "pyarrow",
    "plot": "matplotlib",
    "remote": "fsspec",
    "s3": "s3fs",
    "sql": "duckdb",
    "zst": "zstandard",
}
ASKED = re.compile(r"\(the extra '(\w+)'\)")
MISSING = re.compile(r"(?:No module named|could not import) '([\w.]+)'")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--bare",
        action="store_true",
        help="skip tests that need packages of [dev] which are not installed",
    )


def missing(text: str) -> str:
    """Return the missing [dev] package that the text mentions, if any."""
    for name in MISSING.findall(text):
        package = name.partition(".")[0]
        if package in PACKAGES and find_spec(package) is None:
            return str(package)
    return ""


def asked_for(text: str) -> str:
    """Return the missing package whose extra the failure message names, if any."""
    for extra in ASKED.findall(text):
        package = EXTRAS.get(extra, "")
        if package and find_spec(package) is None:
            return package
    return ""


def _skip(report: Report, package: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (report.nodeid, 0, f"needs {package}")


def _judged(report: Report, config: pytest.Config, error: str) -> Report:
    """Turn a failure into a skip if the option allows it."""
    if config.option.bare and report.failed:
        package = missing(error) or asked_for(str(report.longrepr))
        if package:
            _skip(report, package)
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if not config.option.bare and report.skipped and (package := missing(reason)):
        report.outcome = "failed"
        report.longrepr = f"{package} is missing: pip install -e '.[dev]', or --bare"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the option to a test's report."""
    error = call.excinfo.value if call.excinfo else None
    # If memreplay reports a missing extra, treat that as a failed import. Compare the class by
    # name, because code imported here wouldn't be measured by coverage.
    if type(error).__name__ == "MissingExtraError" and error is not None:
        error = error.__context__
    said = str(error) if isinstance(error, ModuleNotFoundError) else ""
    report = yield
    if item.config.option.bare and report.failed and _is_compiler(error):
        _skip(report, "a compiler")
        return report
    return _judged(report, item.config, said)


def _is_compiler(error: BaseException | None) -> bool:
    """Return whether the error is that a compiler isn't installed."""
    if not isinstance(error, FileNotFoundError) or error.filename not in COMPILERS:
        return False
    return which(error.filename) is None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Apply the option to a file's report."""
    report = yield
    return _judged(report, collector.config, str(report.longrepr or ""))
