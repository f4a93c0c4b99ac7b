"""Saves the part of a snapshot that a gate needs: a small file, fit to be committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from memreplay.analysis.comparing.baseline import DEFAULT, TOP, baseline_of
from memreplay.analysis.comparing.baseline_record import Baseline
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
    from memreplay.commands.gate.asked import GateOptions


class Saving(Options, frozen=True):
    """Whether to save a base, in place of judging."""

    save_base: Annotated[
        str | None,
        Opt(
            "Judge nothing: write what a later --base needs of FILE to this small JSON file, which"
            " you can commit.",
            "BASE",
            path="file",
            brief="Write a base file of FILE; judge nothing.",
        ),
    ] = None
    keep: Annotated[
        int,
        Opt("With --save-base, keep the N largest groups; 0 for all.", "N", least=0, rare=True),
    ] = TOP
    force: Force = False


def check_saving(files: tuple[str, ...], options: GateOptions) -> None:
    """Raises UsageError where a base can't be saved, or something else was asked for."""
    budget, saving = options.budget, options.saving
    given = [f"--{name.replace('_', '-')}" for name in budget.limits]
    given += ["--phase"] if budget.phase else []
    given += ["--base"] if options.base is not None else []
    given += ["--dump"] if options.dump is not None else []
    if given:
        raise UsageError(
            f"--save-base judges nothing: leave out {', '.join(given)}, or run memreplay gate twice"
        )
    if len(files) != 1:
        raise UsageError("--save-base makes a base of one FILE: run it for each")
    check_output(saving.save_base, force=saving.force, read=files)


def save_base(file: str, reading: Reading, options: GateOptions) -> int:
    """Write the base of a file, with what the configuration's budgets speak of; the exit code."""
    budgets, saving = configured_budgets(reading.config), options.saving
    selection = replace(
        DEFAULT,
        measure=options.budget.measure,
        top=saving.keep,
        strict=options.terms.strict,
        rules=reading.config.rules(),
    )

    def work() -> Baseline:
        with opened(file, reading) as snapshot:
            return baseline_of(snapshot, selection, budgets=budgets)

    baseline, exit_code = attempt(file, work)
    if baseline is None:
        return exit_code
    if not options.terms.allow_untrusted and (words := untrusted_words(baseline)):
        complain(words)
        return NOT_TRUSTED
    with byte_output(saving.save_base) as out:
        out.write(f"{render_baseline(baseline)}\n".encode())
    return 0


def untrusted_words(baseline: Baseline) -> str:
    """Why a baseline of this would be no good, in a line; empty where it is. Of one that hides an
    earlier peak no growth could be judged."""
    for device in baseline.devices:
        found = doubts(device.reasons[baseline.measure], strict=True)
        if found:
            return clean(
                f"{baseline.file}: {baseline.measure} bytes of device {device.device} cannot be"
                f" trusted ({', '.join(found)}; memreplay summary says more); --allow-untrusted"
                " writes the base anyway"
            )
    return ""
