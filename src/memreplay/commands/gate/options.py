"""The gate's options: base and strictness."""

from __future__ import annotations

from typing import Annotated, Literal

from memreplay.analysis.comparing.baseline import TOP
from memreplay.analysis.comparing.budgets import BudgetOptions
from memreplay.commands.gate.saving import Saving
from memreplay.commands.shared.dumps import Dump
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.gating.find import Terms

FormatName = Literal["text", "json", "markdown", "github", "junit", "sarif"]
FORMATS: tuple[FormatName, ...] = ("text", "json", "markdown", "github", "junit", "sarif")


WORST = 10  # maximum number of files to show


class GateOptions(Options, frozen=True):
    """Options for the base, and for requirements on the numbers."""

    budget: BudgetOptions = BudgetOptions()
    base: Annotated[
        str | None,
        Opt(
            "Measure growth against this: a snapshot, a base file (--save-base), or a folder with"
            " one of either for each FILE, matched by name.",
            "BASE",
            path="folder",
            brief="Measure growth from this snapshot or base file.",
        ),
    ] = None
    dump: Dump = None
    saving: Saving = Saving()
    terms: Terms = Terms()


def _parse_target(text: str) -> tuple[str, str]:
    """Parse a format and its file, such as `junit=gate.xml`."""
    fmt, equals, path = text.partition("=")
    if not equals or not path or fmt not in FORMATS:
        raise UsageError(
            f"{text!r} is not FORMAT=FILE; formats: {', '.join(FORMATS)} (as junit=gate.xml)"
        )
    return fmt, path


class GateShown(Options, frozen=True):
    """Output formats."""

    most: Annotated[
        int | None,
        Opt(
            f"Show the N worst files ({WORST}); with --save-base keep the N largest groups ({TOP});"
            " 0 for all. Every file is judged.",
            "N",
            flag="--top",
            short="-n",
            least=0,
            brief="Show the N worst files; 0 for all.",
        ),
    ] = None
    format: Annotated[
        FormatName,
        Opt(
            "Output format: text, json, markdown (for pull requests), github (annotations), junit"
            " or sarif.",
            "NAME",
            brief="text, json, markdown, github, junit or sarif.",
        ),
    ] = "text"
    targets: Annotated[
        tuple[tuple[str, str], ...],
        Opt(
            "Also write this format to a file; may be repeated.",
            "FORMAT=FILE",
            flag="--write",
            parse=_parse_target,
            among=lambda: tuple(f"{name}=" for name in FORMATS),
            brief="Also write this format to a file.",
        ),
    ] = ()
