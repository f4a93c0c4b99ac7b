"""The result of `memreplay plan`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, Frame, OfBackend
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import Outcome

Price = Literal["free", "time", "results", "hardware"]
How = Literal["change", "set", "edit"]
PlanExactness = Literal["exact", "usually_exact", "estimated"]


class PlannedLever(Record, frozen=True, kw_only=True):
    """One change of a plan."""

    name: str
    """[The lever](plan.md#levers)."""
    argument: str
    """Which modules, how many parts, which settings, …; empty if there's nothing to choose."""
    title: str
    """What to do."""
    price: Price
    """Its cost: nothing to speak of, time, other numerical results, or more hardware."""
    time_share: float | None
    """Additional time, as a share of a step's time; null if unknown."""
    cost_reason: str
    """Why it costs that."""
    how: How
    """How to apply it: with `memreplay dryrun --change NAME=ARGUMENT`, with allocator settings, or
    only by an edit.
    """
    edit: str
    """The line to write, or the environment variable to set."""
    exactness: PlanExactness
    """How certain its effect on the peak is."""
    estimate_reason: str
    """Why its effect isn't certain; empty if it's exact."""
    module_names: tuple[str, ...] | UnsetType = UNSET
    """The modules to recompute."""
    frame: Frame | UnsetType = UNSET
    """The line of code that holds most of the memory concerned."""


class Verified(Record, frozen=True, kw_only=True):
    """The peaks of a dry run on this card."""

    requested_peak_bytes: int
    """Peak of requested bytes."""
    reserved_peak_bytes: int
    """Peak of reserved bytes."""
    spare_bytes: int
    """How much of the card's memory is left, according to the dry run."""
    error_share: float
    """How much higher the predicted peak of requested bytes is, as a share of the real one."""
    exact: bool
    """Whether [the dry run's numbers are exact](dryrun.md#what-is-exact)."""


class FailedPlan(Record, frozen=True, kw_only=True):
    """Changes that were predicted to be enough but failed in their dry run."""

    lever_names: tuple[str, ...]
    """The levers' names and arguments."""
    requested_peak_bytes: int
    """Predicted peak of requested bytes."""
    reserved_peak_bytes: int
    """Predicted peak of reserved bytes."""
    reason: str
    """How the dry run ended."""


class Planned(Record, frozen=True, kw_only=True):
    """A plan: changes with which the program fits."""

    levers: tuple[PlannedLever, ...]
    """The changes, all of which are needed. Empty if the recorded program fits."""
    requested_peak_bytes: int
    """Predicted peak of requested bytes."""
    exactness: Literal["verified", "exact", "usually_exact", "estimated"]
    """Whether the plan is verified by a dry run, or how certain the prediction is. Only changed
    allocator settings are `exact`. With `usually_exact`, only lifetimes change, but some of them
    are inferred.
    """
    reserved_exactness: Exactness
    """Whether `simulated` is exact. After changes to the program, the order in which it frees
    memory, and so the reserved peak, are estimates.
    """
    spare_bytes: int
    """How much of the card's memory is left; if verified, according to the dry run."""
    price: Price
    """The cost of the most expensive change."""
    time_share: float | None
    """Additional time of all changes, as a share of a step's time; null if unknown."""
    simulated: Outcome
    """How the allocator handles the changed program on this card."""
    verified: Verified | None = None
    """The peaks of the changed program's dry run; null if it wasn't run."""


class Floor(Record, frozen=True, kw_only=True):
    """The most memory of parameters, gradients and optimizer state that is live at once."""

    bytes: int
    """Their bytes."""
    event_index: int
    """The event after which they're live."""
    category_bytes: dict[str, int]
    """Bytes by category."""


class Tradeoff(Record, frozen=True, kw_only=True):
    """A combination of changes that needs less memory than all cheaper ones."""

    lever_names: tuple[str, ...]
    """The levers' names and arguments."""
    requested_peak_bytes: int
    """Predicted peak of requested bytes."""
    price: Price
    """The cost of the most expensive change."""
    time_share: float | None
    """Additional time of all changes, as a share of a step's time; null if unknown."""


class DevicePlans(OfBackend, frozen=True, kw_only=True):
    """One device's plans."""

    device: int
    first_event: int
    events: int
    total_memory_bytes: int
    """The card's memory, as given."""
    context_bytes: int
    """The part of it that CUDA itself uses: an estimate, unless memreplay's recorder measured it on
    this card.
    """
    program_memory_bytes: int
    """The rest, which the program can use."""
    requested_peak_bytes: int
    """Peak of requested bytes in the recording."""
    reserved_peak_bytes: int
    """Peak of reserved bytes in the recording."""
    fits: bool
    """Whether the recorded program fits already."""
    verified: Verified | None = None
    """The peaks of the unchanged program's dry run on this card; null if it wasn't run or doesn't
    fit.
    """
    ran_out: bool
    """Whether a request failed in the recording, so that the rest of the program isn't known."""
    modules_known: bool
    """Whether memreplay recorded modules, which plans to recompute some of them need."""
    floor: Floor
    """A lower bound: only changes to the parameters, their gradients or the optimizer save some of
    it.
    """
    plans: tuple[Planned, ...]
    """At most three plans, cheapest first."""
    failed_plans: tuple[FailedPlan, ...]
    """Plans that failed in their dry runs."""
    tradeoffs: tuple[Tradeoff, ...]
    """Memory against cost, from the highest peak on."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


class PlanReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.plan/1"):
    """The result of `memreplay plan`."""

    file: str
    """The recording; after `memreplay plan -- COMMAND`, that of the unchanged program."""
    command: tuple[str, ...] = ()
    """The program that was run; empty if a file was given."""
    gpu: str | None = None
    """The GPU that was imitated, as for `dryrun --gpu`; null if a file was given."""
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DevicePlans, ...]

    @property
    def found(self) -> bool:
        """Whether each device has a plan or needs none."""
        return all(one.fits or one.plans for one in self.devices)

    def document(self) -> Document:
        from memreplay.commands.plan.text import plan_document

        return plan_document(self)
