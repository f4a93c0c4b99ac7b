"""`memreplay baseline`: a snapshot boiled down to a small file that later ones are held against."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from memreplay.commands.shared.errors import NOT_TRUSTED, attempt
from memreplay.commands.shared.options import (
    STRICT_EXIT_CODES,
    config_options,
    file_argument,
    from_zero,
    output_options,
    reading_options,
    strict_option,
)
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.baseline_record import Baseline
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.snapshot.model import MeasureName


@click.command(
    "baseline",
    epilog=f"""\b
Examples:
  memreplay baseline snap.pkl -o ci/base.json
  memreplay baseline snap.pkl -o ci/base.json --force
  memreplay gate new.pkl --base ci/base.json --max-growth 2%
  memreplay diff ci/base.json new.pkl

{STRICT_EXIT_CODES.replace("(--strict)", "(nothing is written)")}""",
)
@file_argument
@click.option(
    "--measure",
    type=click.Choice(["requested", "held", "active", "allocated"]),
    default="held",
    show_default=True,
    help="Which bytes to keep groups for; the peaks of all measures are kept.",
)
@click.option(
    "--top",
    type=int,
    callback=from_zero,
    metavar="N",
    default=50,
    show_default=True,
    help="Keep the N largest groups; 0 for all.",
)
@click.option(
    "--allow-untrusted",
    is_flag=True,
    help="Write the baseline even if the snapshot contradicts itself.",
)
@config_options
@reading_options
@strict_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    measure: MeasureName,
    top: int,
    allow_untrusted: bool,
    config: ConfigChoice,
    reading: Reading,
    strict: bool,
    output: str | None,
    force: bool,
) -> None:
    """Save the part of a snapshot that a gate needs.

    Writes the peaks of FILE ('-' for standard input) and the largest groups at each of them to a
    small JSON file that you can commit. `memreplay gate --base` and `memreplay diff` take it in
    place of the snapshot. It also keeps categories, annotations, and what the [[gate]] tables ask
    for.
    """
    from memreplay.analysis.comparing.budgets import budgets_of

    check_output(output, force=force, read=[file])
    found = config.load()
    budgets = budgets_of(found.table, found.name)
    rules = config.rules()
    baseline, exit_code = attempt(
        file, partial(_boiled_down, file, reading, measure, top, rules, budgets, strict)
    )
    if baseline is None:
        ctx.exit(exit_code)
    if not allow_untrusted:
        words = _doubts(baseline, strict)
        if words:
            click.echo(f"memreplay: error: {words}", err=True)
            ctx.exit(NOT_TRUSTED)
    from memreplay.commands.baseline.json import render_baseline_json

    with byte_output(output) as out:
        out.write(f"{render_baseline_json(baseline)}\n".encode())


def _boiled_down(
    file: str,
    reading: Reading,
    measure: MeasureName,
    top: int,
    rules: tuple[Rule, ...],
    budgets: tuple[Budget, ...],
    strict: bool,
) -> Baseline:
    from memreplay.analysis.comparing.baseline import baseline_of

    with opened(file, reading) as snapshot:
        return baseline_of(
            snapshot, measure=measure, rules=rules, budgets=budgets, top=top, strict=strict
        )


def _doubts(baseline: Baseline, strict: bool) -> str:
    """Why a baseline of this would be no good, in a line; empty where it is."""
    from memreplay.commands.gate.find import doubts
    from memreplay.render.fit import clean

    for device in baseline.devices:
        found = doubts(device.reasons[baseline.measure], strict=strict)
        if found:
            return clean(
                f"{baseline.file}: {baseline.measure} bytes of device {device.device} cannot be"
                f" trusted ({', '.join(found)}; memreplay summary says more); --allow-untrusted"
                " writes a baseline anyway"
            )
    return ""
