"""The option `--bare`: skips what needs a package that is not installed; else that is a failure.

Without it all of [dev] has to be there, so that no run leaves out tests unnoticed. With it, that of
a wheel with `[test]` beside it, a test is skipped where it, or what it calls, imports one of these,
or fails since a command said which extra it wants; and where it compiles and there is no compiler.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.util import find_spec
from shutil import which
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# What [dev] brings besides [test], as it is imported.
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
    "s3fs",
    "setuptools",
    "textual",
    "xmlschema",
    "yaml",
    "zstandard",
)
COMPILERS = ("gcc", "cc")
# What a command or the library says of an extra, by a package of it.
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
    """The package of [dev] that a text says is missing, and that is; else nothing."""
    for name in MISSING.findall(text):
        package = name.partition(".")[0]
        if package in PACKAGES and find_spec(package) is None:
            return str(package)
    return ""


def asked_for(text: str) -> str:
    """The package of an extra that a failure says it wants, and that is missing; else nothing."""
    for extra in ASKED.findall(text):
        package = EXTRAS.get(extra, "")
        if package and find_spec(package) is None:
            return package
    return ""


def _skip(report: Report, package: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (report.nodeid, 0, f"needs {package}")


def _judged(report: Report, config: pytest.Config, error: str) -> Report:
    """A report whose outcome is what the option makes of it."""
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
    """Of a test."""
    error = call.excinfo.value if call.excinfo else None
    # What the package itself says where an extra is missing stands for that import. By name: what
    # is imported here coverage does not see.
    if type(error).__name__ == "MissingExtraError" and error is not None:
        error = error.__context__
    said = str(error) if isinstance(error, ModuleNotFoundError) else ""
    report = yield
    if item.config.option.bare and report.failed and _is_compiler(error):
        _skip(report, "a compiler")
        return report
    return _judged(report, item.config, said)


def _is_compiler(error: BaseException | None) -> bool:
    """Whether what could not be started is a compiler that is not here."""
    if not isinstance(error, FileNotFoundError) or error.filename not in COMPILERS:
        return False
    return which(error.filename) is None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Of a file."""
    report = yield
    return _judged(report, collector.config, str(report.longrepr or ""))
