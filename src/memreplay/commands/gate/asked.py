"""What a gate holds files against, and how strictly."""

from __future__ import annotations

from typing import Annotated, Literal

from memreplay.analysis.comparing.budgets import BudgetOptions
from memreplay.commands.gate.saving import Saving
from memreplay.commands.shared.dumps import Dump
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.gating.find import Terms

FormatName = Literal["text", "json", "markdown", "github", "junit", "sarif"]
FORMATS: tuple[FormatName, ...] = ("text", "json", "markdown", "github", "junit", "sarif")


class GateOptions(Options, frozen=True):
    """The base, and what numbers have to be."""

    budget: BudgetOptions = BudgetOptions()
    base: Annotated[
        str | None,
        Opt(
            "Measure growth against this: a snapshot, a base (--save-base), or a folder with one"
            " for each FILE, matched by name.",
            "BASE",
            path="folder",
            brief="Measure growth against this snapshot or base.",
        ),
    ] = None
    dump: Dump = None
    saving: Saving = Saving()
    terms: Terms = Terms()


def _parse_target(text: str) -> tuple[str, str]:
    """`junit=gate.xml`: a format, and the file that it goes to."""
    fmt, equals, path = text.partition("=")
    if not equals or not path or fmt not in FORMATS:
        raise UsageError(
            f"{text!r} is not FORMAT=FILE; formats: {', '.join(FORMATS)} (as junit=gate.xml)"
        )
    return fmt, path


class GateShown(Options, frozen=True):
    """How to say it."""

    top: Annotated[
        int,
        Opt(
            "Show the N worst files; 0 for all. Every file is judged.",
            "N",
            short="-n",
            least=0,
            brief="Show the N worst files; 0 for all.",
        ),
    ] = 10
    format: Annotated[
        FormatName,
        Opt(
            "Text for people, JSON for programs, Markdown for a pull request, GitHub annotations,"
            " or a JUnit or SARIF report.",
            "NAME",
            brief="text, json, markdown, github, junit or sarif.",
        ),
    ] = "text"
    targets: Annotated[
        tuple[tuple[str, str], ...],
        Opt(
            "Also write another format to a file; may be repeated.",
            "FORMAT=FILE",
            flag="--write",
            parse=_parse_target,
            brief="Also write this format to a file.",
        ),
    ] = ()
