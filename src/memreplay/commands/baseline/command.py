"""`memreplay baseline`: a snapshot boiled down to a small file that later ones are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.errors import NOT_TRUSTED, attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
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
    from memreplay.analysis.comparing.baseline_record import Baseline
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.shared.config import ConfigChoice


class Asked(Struct, frozen=True):
    """What else is asked, and where it goes."""

    config: ConfigChoice
    allow_untrusted: bool
    output: str | None
    force: bool


@click.command(
    "baseline",
    cls=Command,
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
@selects_with_rules
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """Save the part of a snapshot that a gate needs.

    Writes the peaks of FILE ('-' for standard input) and the largest groups at each of them to a
    small JSON file that you can commit. `memreplay gate --base` and `memreplay diff` take it in
    place of the snapshot. It also keeps categories, annotations, and what the [[gate]] tables ask
    for.
    """
    from memreplay.analysis.comparing.budgets import budgets_of

    check_output(asked.output, force=asked.force, read=[file])
    found = asked.config.load()
    budgets = budgets_of(found.table, found.name)

    def work() -> Baseline:
        from memreplay.analysis.comparing.baseline import baseline_of

        with opened(file, reading) as snapshot:
            return baseline_of(snapshot, selection, budgets=budgets)

    baseline, exit_code = attempt(file, work)
    if baseline is None:
        return exit_code
    if not asked.allow_untrusted:
        words = _doubts(baseline)
        if words:
            click.echo(f"memreplay: error: {words}", err=True)
            return NOT_TRUSTED
    from memreplay.commands.baseline.lines import render_baseline

    with byte_output(asked.output) as out:
        out.write(f"{render_baseline(baseline)}\n".encode())
    return 0


def _doubts(baseline: Baseline) -> str:
    """Why a baseline of this would be no good, in a line; empty where it is. Of one that hides an
    earlier peak no growth could be judged."""
    from memreplay.commands.gate.find import doubts
    from memreplay.texts import clean

    for device in baseline.devices:
        found = doubts(device.reasons[baseline.measure], strict=True)
        if found:
            return clean(
                f"{baseline.file}: {baseline.measure} bytes of device {device.device} cannot be"
                f" trusted ({', '.join(found)}; memreplay summary says more); --allow-untrusted"
                " writes a baseline anyway"
            )
    return ""
