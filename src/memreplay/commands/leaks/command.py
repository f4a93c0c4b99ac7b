"""`memreplay leaks`: which code holds more and more from step to step."""

from __future__ import annotations

from typing import Annotated

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.leaks.find import LeaksOptions, leaks_report
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.leaks.text import leaks_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt, name_of, say
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import ShownFrames, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt, Options

LEAKING = 1
UNTOLD = 5


class Failing(Options, frozen=True):
    """What is an error."""

    fail: Annotated[
        bool,
        Opt(
            "Exit with 1 if anything leaks, and with 5 if the file cannot tell.",
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
    exits={1: "leaks (--fail)", 5: "no steps, or too few"},
    without=("only_carried_over", "no_carried_over"),
)
def command(
    file: File,
    options: LeaksOptions,
    failing: Failing,
    selection: Selection,
    reading: Reading,
    shown: ShownFrames,
) -> int:
    """Adds up what each stack (or group: --by) has live at the end of each step, and shows those
    that keep growing, with bytes per step. What grew once and stopped, such as the optimizer's
    state, is listed apart.
    """

    def work() -> LeaksReport:
        with opened(file, reading) as snapshot:
            return leaks_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(text_of(report, shown, leaks_document))
    if failing.fail and report.leaking:
        return LEAKING
    if not report.judged:
        return UNTOLD
    untrusted = trust_code(report, selection.strict)
    if failing.fail and options.windows is None and (unsure := _unsure(report)):
        say(f"{name_of(file)}: {unsure}")
        return untrusted or UNTOLD
    return untrusted


def _unsure(report: LeaksReport) -> str:
    """Why nobody can say that there is no leak; empty where one can. A device on which nothing
    happened while others worked leaks nothing."""
    for device in report.devices:
        if device.source is not None and device.source.kind == "windows":
            return (
                f"device {device.device}: no steps were found, so the file cannot show that"
                f" nothing leaks; --windows {device.steps} takes equal parts as steps"
            )
        if device.guessed and device.grows:
            return (
                f"device {device.device}: memory grows, and nothing marks steps: a leak, unless"
                " this is a single pass; name the steps with --step-annotation"
            )
        if not device.judged and device.events:
            return f"device {device.device}: {device.not_judged}"
    return ""
