"""What each rule of categories caught, and what none did, as records."""

from __future__ import annotations

from typing import Literal

from memreplay.snapshot.model import Group
from memreplay.snapshot.record import Record


class Caught(Record, frozen=True, kw_only=True):
    """What one rule caught: each allocation is caught by the first rule that matches."""

    rule: int | None
    """The rule's number, from 1; null for a category that memreplay's recorder noted."""
    category: str
    """The category that it gives."""
    own: bool
    """Whether the configuration has it, and not memreplay itself."""
    bytes: int
    """What it caught."""
    count: int
    """In how many allocations."""
    share: float
    """`bytes` as a share of the live set, 0.0 to 1.0."""
    largest: Group | None
    """The stack that holds most of it; null if nothing was caught."""


class RulesCaught(Record, frozen=True, kw_only=True):
    """A live set by the rules of categories: their `bytes` and `unknown_bytes` add up to it."""

    source: Literal["recorded", "guessed"]
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    rules: tuple[Caught, ...]
    """All rules, in their order; where categories were recorded the rules of the configuration, and
    each category that there is."""
    unknown_bytes: int
    """What no rule caught."""
    unknown_count: int
    """In how many allocations."""
    unknown_total: int
    """In how many stacks."""
    unknown: tuple[Group, ...]
    """The largest of these stacks, as many as `--top` says."""
    notes: tuple[str, ...] = ()
    """What the rules could not tell apart."""
