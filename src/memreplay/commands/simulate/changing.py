"""Options of `memreplay simulate` that change the program itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.selection import ONLY
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Filters
    from memreplay.analysis.simulating.editing import Change


class Changing(Options, frozen=True):
    """Options for how to change the program, and which allocations to change, in addition to the
    filters.
    """

    scale: Annotated[
        float | None,
        Opt(
            "Multiply the sizes of the chosen allocations: 0.5 for half the batch, 0 to remove"
            " them.",
            "FACTOR",
            least=0,
            most=1000,
            brief="Scale the chosen allocations (0 removes them).",
        ),
    ] = None
    checkpoint: Annotated[
        bool,
        Opt(
            "Free the chosen allocations immediately, and allocate them again when they're needed.",
            brief="Free them immediately, and recompute them later.",
        ),
    ] = False
    category: Annotated[
        tuple[str, ...],
        Opt("in this category, or in one of several", "NAME", of=ONLY),
    ] = ()

    def change(self, filters: Filters | None) -> Change | None:
        """Return the change; None if there is none. Raises UsageError for a combination that makes
        no sense.
        """
        chosen = bool(self.category) or filters is not None
        if self.scale is None and not self.checkpoint:
            if chosen:
                raise UsageError(
                    "say what to do with the chosen allocations: --scale or --checkpoint"
                )
            return None
        if self.scale is not None and self.checkpoint:
            raise UsageError("--scale and --checkpoint exclude each other; give one")
        if not chosen and not self.scale:
            what = "--checkpoint" if self.checkpoint else "--scale 0"
            raise UsageError(
                f"choose the allocations for {what}, for example with --only category=activations"
                " or --include model.py"
            )
        from memreplay.analysis.simulating.editing import Change  # imported late: rarely needed

        factor = 1.0 if self.scale is None else self.scale
        return Change(
            factor=factor, twice=self.checkpoint, filters=filters, categories=self.category
        )
