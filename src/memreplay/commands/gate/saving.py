"""Save the parts of a snapshot that a gate needs as a small file for version control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from memreplay.analysis.comparing.baseline import DEFAULT, TOP, baseline_of
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.analysis.comparing.budgets import spelled
from memreplay.commands.gate.limits import configured_budgets
from memreplay.commands.shared.errors import NOT_TRUSTED, attempt, complain
from memreplay.commands.shared.output import Force, byte_output, check_output
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.gating.base_lines import render_baseline
from memreplay.gating.find import doubts
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.commands.gate.options import GateOptions


class Saving(Options, frozen=True):
    """Options for saving a base instead of judging."""

    save_base: Annotated[
        str | None,
        Opt(
            "Don't check anything. Save what a later --base needs to this small JSON file, which"
            " you can commit.",
            "BASE",
            path="file",
            brief="Save a base file of FILE; don't check it.",
        ),
    ] = None
    force: Force = False


def check_saving(files: tuple[str, ...], options: GateOptions) -> None:
    """Raise UsageError if a base can't be saved, or if options conflict."""
    budget, saving = options.budget, options.saving
    given = [*spelled(budget.limits)]
    given += ["--phase"] if budget.phase else []
    given += ["--base"] if options.base is not None else []
    given += ["--dump"] if options.dump is not None else []
    if given:
        raise UsageError(
            f"--save-base doesn't check limits; leave out {', '.join(given)}, or run"
            " memreplay gate twice"
        )
    if len(files) != 1:
        raise UsageError("--save-base takes one FILE; run it for each")
    check_output(saving.save_base, force=saving.force, read=files)


def save_base(file: str, reading: Reading, options: GateOptions, top: int | None) -> int:
    """Write a file's base, with its `top` largest groups and whatever the configuration's budgets
    need. Return the exit code.
    """
    budgets, saving = configured_budgets(reading.config), options.saving
    selection = replace(
        DEFAULT,
        measure=options.budget.measure,
        top=TOP if top is None else top,
        strict=options.terms.strict,
        rules=reading.config.rules(),
    )

    def work() -> Baseline:
        with opened(file, reading) as snapshot:
            return baseline_of(snapshot, selection, budgets=budgets)

    baseline, exit_code = attempt(file, work)
    if baseline is None:
        return exit_code
    if not options.terms.allow_untrusted and (words := untrusted_text(baseline)):
        complain(words)
        return NOT_TRUSTED
    with byte_output(saving.save_base) as out:
        out.write(f"{render_baseline(baseline)}\n".encode())
    return 0


def untrusted_text(baseline: Baseline) -> str:
    """Return why a snapshot isn't a suitable baseline, or "".

    If the recording may lack an earlier peak, growth can't be judged.
    """
    for device in baseline.devices:
        found = doubts(device.reasons[baseline.measure], strict=True)
        if found:
            return clean(
                f"{baseline.file}: {baseline.measure} bytes of device {device.device} can't be"
                f" trusted ({', '.join(found)}; memreplay summary says more); --allow-untrusted"
                " writes the base anyway"
            )
    return ""
