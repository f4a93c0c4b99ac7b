"""Judge whether a run with a fault ended correctly: with the same result, or one error line."""

from __future__ import annotations

import json
import re
import signal
from xml.etree import ElementTree

from tests.faults.running import Outcome
from tests.faults.scenarios import OLD, Scenario
from tests.faults.shim import Fault

# Exit codes: usage error (including unwritable output), unreadable input, truncated input, closed
# stdout.
FAILED = (2, 3)
PIPE_CLOSED = 141
LINE = re.compile(r"memreplay: error: \S.*")
NOTE = re.compile(r"memreplay: \S.*")
BAD = ("Traceback", "Exception ignored", "Error:", "Errno", "<", "None")
PART = re.compile(r"(^|/)\.memreplay-[^/]*\.part(/|$)")
# The message if removing the incomplete file failed as well.
REMOVING = ("unlink", "list", "stat", "open", "close", "seek", "lock")


def judged(
    scenario: Scenario, old: dict[str, bytes], base: Outcome, fault: Fault, run: Outcome
) -> str:
    """Return the verdict: `same`, `error`, `missed` (the call didn't happen), `theirs` (another
    library crashed), or `wrong: ` and the problem.
    """
    if fault.group == "memory" and is_theirs(run):
        return "theirs"
    found = _wrong(scenario, old, base, fault, run)
    if found:
        return f"wrong: {found}"
    if run.counted.fired == 0:
        return "missed"
    return "same" if run.exit == base.exit and run.err == base.err else "error"


def is_theirs(run: Outcome) -> bool:
    """Return whether the run crashed in third-party code."""
    return run.exit in (-signal.SIGSEGV, -signal.SIGABRT) and run.counted.crash == "theirs"


def _wrong(
    scenario: Scenario, old: dict[str, bytes], base: Outcome, fault: Fault, run: Outcome
) -> str:
    if run.late:
        return "it did not end"
    if run.exit < 0:
        return f"signal {-run.exit}"
    for word in BAD:
        if word in run.err and word not in base.err:
            return f"{word!r} on stderr"
    is_same = (run.exit, run.out, run.err, run.files) == (base.exit, base.out, base.err, base.files)
    lost = fault.group == "fsync" or (fault.group in ("write", "close") and run.counted.on_output)
    if is_same:
        if lost and not fault.is_harmless and run.counted.fired:
            return "an error of the output was passed over"
        return ""
    if fault.group == "stat" and (run.exit, run.out, run.files) == (
        base.exit,
        base.out,
        base.files,
    ):
        return ""  # a shorter message
    said = (run.exit, run.out, run.err) == (base.exit, base.out, base.err)
    if said and fault.group in REMOVING and not fault.is_harmless:
        return _files(scenario, base.files, base, fault, run)  # the next run removes leftovers
    if fault.is_harmless or not run.counted.fired:
        return f"not the same: {_difference(base, run)}"
    told = run.err.splitlines()  # such as the note that files were written, before stdout failed
    notes = all(NOTE.fullmatch(line) and not LINE.fullmatch(line) for line in told)
    if run.exit == PIPE_CLOSED and fault.how == "EPIPE" and notes:
        return _files(scenario, old, base, fault, run)
    if run.exit == base.exit and not base.exit and not scenario.many:
        return f"exit {run.exit}, and not the same: {_difference(base, run)}"
    if run.exit not in (*FAILED, base.exit) and not (scenario.many and run.exit in (1, 2, 3)):
        return f"exit {run.exit}"
    lines = run.err.splitlines()
    errors = [line for line in lines if LINE.fullmatch(line)]
    if scenario.many:
        if not all(NOTE.fullmatch(line) for line in lines):
            return "stderr has other lines"
        if not errors and b"rror" not in run.out and run.out == base.out and run.err == base.err:
            return "no word of it"
    elif len(lines) != 1 or len(errors) != 1:
        return f"{len(lines)} lines on stderr"
    if run.out not in (b"", base.out) and not scenario.many and not base.out.startswith(run.out):
        return "stdout is neither whole nor empty"
    return _files(scenario, old, base, fault, run)


def _files(
    scenario: Scenario, old: dict[str, bytes], base: Outcome, fault: Fault, run: Outcome
) -> str:
    """Return what is wrong with the output files: they must all be old or all be new."""
    left = {name for name in run.files if PART.search(name)}
    if left and fault.on and "the previous files are in /" in run.err:
        return ""  # nothing can be restored at this point; the next run repairs it
    if left and fault.group not in REMOVING:
        return f"left behind: {min(left)}"
    shown = {name: data for name, data in run.files.items() if name not in left}
    if shown in (old, base.files):
        return ""
    if scenario.reports and all(map(_is_report, shown.items())):
        return ""
    if scenario.appends and all(data.startswith(old[name]) for name, data in shown.items()):
        return ""
    if scenario.resumes:
        return ""  # the next run repairs it
    odd = [
        name for name, data in shown.items() if data not in (old.get(name), base.files.get(name))
    ]
    gone = sorted(set(old) - set(shown))
    if odd:
        return f"neither old nor new: {odd[0]}"
    if gone:
        return f"lost: {gone[0]}"
    return "some files are old, some new"


def _is_report(file: tuple[str, bytes]) -> bool:
    """Return whether this is the old report, or a complete report on several files, whatever its
    contents.
    """
    name, data = file
    if data == OLD:
        return True
    try:
        if name.endswith(".html"):
            return data.startswith(b"<!doctype html>") and data.rstrip().endswith(b"</html>")
        if name.endswith(".xml"):
            ElementTree.fromstring(data)
        else:
            json.loads(data)
    except (ValueError, ElementTree.ParseError):
        return False
    return True


def _difference(base: Outcome, run: Outcome) -> str:
    if run.exit != base.exit:
        return f"exit {run.exit}, {run.err.strip()[:200]!r}"
    if run.out != base.out:
        return "stdout"
    if run.err != base.err:
        return f"stderr, {run.err.strip()[:200]!r}"
    names = {*base.files, *run.files}
    return f"files, {sorted(n for n in names if base.files.get(n) != run.files.get(n))[:3]}"
