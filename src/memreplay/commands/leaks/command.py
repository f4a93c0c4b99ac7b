"""`memreplay leaks`: which code holds more memory with every step."""

from __future__ import annotations

from typing import Annotated

from memreplay.analysis.leaks.judging import LeaksOptions
from memreplay.analysis.leaks.records import DOUBTS
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.leaks.text import leaks_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt, name_of, say
from memreplay.commands.shared.helping import OWN
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import ShownFrames, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt

LEAKING = 1
UNTOLD = 5


class ShownLeaks(ShownFrames, frozen=True):
    """Output options: text with stacks, or JSON, and whether a leak is an error."""

    fail: Annotated[
        bool,
        Opt(
            "Exit with 1 if anything leaks, or with 5 if the file can't show whether anything"
            " does.",
            group=OWN,
            brief="Exit with 1 if anything leaks.",
        ),
    ] = False


@as_command(
    "leaks",
    examples=(
        "memreplay leaks snap.pkl",
        "memreplay leaks snap.pkl --total-memory 80GiB",
        "memreplay leaks snap.pkl --by module --exclude optimizer",
        "memreplay leaks snap.pkl --min-growth 1KiB --fail",
        "memreplay leaks snap.pkl --json | jq '.devices[].leaks[] | [.bytes_per_step, .label]'",
    ),
    exits={1: "leaks (--fail)", 5: "no steps, or too few of them"},
    answers=leaks_report,
)
def command(
    file: File,
    options: LeaksOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownLeaks,
) -> int:
    """Add up the live memory of each stack (or group: --by) at the end of each step, and show those
    that keep growing, in bytes per step. Memory that grew once and stopped, such as optimizer
    state, is listed separately.
    """

    def work() -> LeaksReport:
        with opened(file, reading) as snapshot:
            return leaks_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(text_of(report, shown, leaks_document))
    if shown.fail and report.leaking:
        return LEAKING
    if not report.judged:
        return UNTOLD
    untrusted = trust_code(report, selection.strict)
    if shown.fail and options.windows is None and (unsure := _unsure(report)):
        say(f"{name_of(file)}: {unsure}")
        return untrusted or UNTOLD
    return untrusted


def _unsure(report: LeaksReport) -> str:
    """Return why leaks can't be ruled out, or "". A device that was idle while others worked
    doesn't leak.
    """
    for device in report.devices:
        if device.by_windows:
            return (
                f"device {device.device}: no steps were found, so leaks can't be ruled out; define"
                " steps with --step annotation=NAME or --step period=N"
            )
        if device.unless is not None:
            doubt = DOUBTS[device.unless]
            return f"device {device.device}: memory grows: {doubt.words}; {doubt.remedy}"
        if not device.judged and device.events:
            return f"device {device.device}: {device.not_judged_reason}"
    return ""
