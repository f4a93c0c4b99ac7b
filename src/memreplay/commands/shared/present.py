"""Build a file's report, write it, and return the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from memreplay.commands.shared.errors import NOT_TRUSTED, attempt
from memreplay.commands.shared.output import write


class DevicePart(Protocol):
    """A device's part of a report."""

    @property
    def trusted(self) -> bool: ...


class Report(Protocol):
    """A report with one part per device."""

    @property
    def devices(self) -> Sequence[DevicePart]: ...


R = TypeVar("R", bound=Report)


def present(
    file: str,
    work: Callable[[], R],
    render: Callable[[R], str],
    *,
    strict: bool = False,
) -> int:
    """Write the result of `work`, which reads `file`. Return the exit code."""
    report, exit_code = attempt(file, work)
    if report is not None:
        write(render(report))
        exit_code = trust_code(report, strict)
    return exit_code


def trust_code(report: Report, strict: bool) -> int:
    """Return NOT_TRUSTED for a report that `strict` rejects, otherwise 0."""
    return NOT_TRUSTED if strict and not all(one.trusted for one in report.devices) else 0
