"""Dry-run a pytest test in its own process."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memreplay.errors import UsageError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from memreplay.dryrun.launch import Setup

_TAIL = 20_000


class Tried(NamedTuple):
    """The outcome of a test."""

    outcome: str
    """passed, failed or skipped."""
    words: str
    """The reason and the test's output."""
    properties: tuple[tuple[str, str], ...]
    """The test's user properties, as in pytest."""


def setup_of(said: dict[str, Any]) -> Setup:
    """Return the machine that a marker describes. Raises UsageError for an unknown card."""
    from memreplay.analysis.selecting.sizes import SizeError, parse_size
    from memreplay.dryrun.cards import find
    from memreplay.dryrun.launch import Setup

    card = find(str(said.get("gpu", "A100-80")))
    try:
        memory = parse_size(str(said["total_memory"])) if "total_memory" in said else card.bytes
    except SizeError as error:
        raise UsageError(str(error)) from None
    for name in ("gpus", "timeout"):
        if not isinstance(said.get(name, 1), int) or said.get(name, 1) < 1:
            raise UsageError(f"{name} must be a number above 0")
    return Setup(
        card=card,
        total_bytes=memory,
        cards=said.get("gpus", 1),
        settings=said.get("set"),
        timeout=said.get("timeout"),
    )


def tried(test: str, options: list[str], setup: Setup) -> Tried:
    """Run one test, given as path::class::function.

    `options`: further options for pytest. The project's addopts are ignored, because they're meant
    for the whole suite. Raises NoCudaError if torch can't dry-run.
    """
    from memreplay.dryrun.launch import end_by_signal, run

    with tempfile.TemporaryDirectory(prefix="memreplay-") as name:
        folder = Path(name)
        results, printed = folder / "results.xml", folder / "printed"
        snapshots = folder / "snapshots"
        snapshots.mkdir()
        command = [
            *(sys.executable, "-m", "pytest", test, "-q", "--no-header", "--color=no"),
            *("-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="),
            *("-o", "junit_family=xunit2", f"--junit-xml={results}", *options),
        ]
        with open(printed, "wb") as out:
            ended = run(
                command, setup._replace(stdout=out.fileno(), stderr=out.fileno()), snapshots
            )
        end_by_signal(ended.stopped_by)
        said = printed.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        if ended.timed_out:
            return Tried("failed", f"stopped after {setup.timeout} s\n\n{said}", ())
        if not results.exists():
            last = next((one.last_call for one in ended.processes if not one.facts), "")
            words = f"the process ended with exit code {ended.status}"
            words += f"; its last CUDA call was {last}" if last else ""
            return Tried("failed", f"{words}\n\n{said}", ())
        return _read(results, said)


def _read(results: Path, said: str) -> Tried:
    # The file was written by pytest in our own process, so it can be trusted.
    from xml.etree import ElementTree

    case = ElementTree.parse(results).getroot().find(".//testcase")
    if case is None:
        return Tried("failed", f"pytest did not find the test\n\n{said}", ())
    properties = tuple(
        (one.get("name", ""), one.get("value", "")) for one in case.iterfind(".//property")
    )
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return Tried("failed", _words(found), properties)
    skipped = case.find("skipped")
    if skipped is not None:
        return Tried("skipped", skipped.get("message", ""), properties)
    return Tried("passed", "", properties)


def _words(found: Element) -> str:
    return (found.text or found.get("message") or "").strip("\n")
