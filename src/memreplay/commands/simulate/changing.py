"""What `memreplay simulate` changes of the program itself, as options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Filters
    from memreplay.analysis.simulating.editing import Change


class Changing(Options, frozen=True):
    """What to change of the program itself, and of which allocations besides the filters."""

    scale: Annotated[
        float | None,
        Opt(
            "Multiply the sizes of the chosen allocations by this: 0.5 for half the batch.",
            "FACTOR",
            least=0,
            most=1000,
            brief="Scale the chosen allocations: 0.5 for half.",
        ),
    ] = None
    leave_out: Annotated[bool, Opt("Leave the chosen allocations out.")] = False
    checkpoint: Annotated[
        bool,
        Opt(
            "Free the chosen allocations at once, and make them again when they are needed.",
            brief="Free them at once, make them again later.",
        ),
    ] = False
    category: Annotated[
        tuple[str, ...],
        Opt(
            "Choose the allocations of this category (memreplay help categories). Repeat for"
            " several.",
            "NAME",
            brief="Choose the allocations of this category.",
        ),
    ] = ()

    def change(self, filters: Filters | None) -> Change | None:
        """The change of the program; None for nothing. Raises UsageError for what makes no sense
        together."""
        chosen = bool(self.category) or filters is not None
        asked = (self.scale is not None) + self.leave_out + self.checkpoint
        if not asked:
            if chosen:
                raise UsageError(
                    "what to do with the chosen allocations? give --scale, --leave-out or"
                    " --checkpoint"
                )
            return None
        if asked > 1:
            raise UsageError("--scale, --leave-out and --checkpoint exclude each other")
        if not chosen and self.scale is None:
            raise UsageError(
                "choose allocations, as by --category activations or --include model.py"
            )
        from memreplay.analysis.simulating.editing import Change  # late: it loads NumPy

        factor = 0.0 if self.leave_out else 1.0 if self.scale is None else self.scale
        return Change(
            factor=factor, twice=self.checkpoint, filters=filters, categories=self.category
        )
