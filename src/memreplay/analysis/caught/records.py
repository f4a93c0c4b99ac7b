"""Records of what each category rule matched, and what no rule matched."""

from __future__ import annotations

from typing import Literal

from memreplay.snapshot.model import Group
from memreplay.snapshot.record import Record


class Caught(Record, frozen=True, kw_only=True):
    """The memory matched by a rule. If several rules match an allocation, the first one gets it."""

    rule_number: int | None
    """Number of the rule, from 1; null for a recorded category."""
    category: str
    """The rule's category."""
    own: bool
    """Whether the rule comes from the configuration."""
    bytes: int
    """Matched bytes."""
    count: int
    """Number of allocations."""
    share: float
    """`bytes` as a share of the live set, 0.0 to 1.0."""
    largest: Group | None
    """The stack that holds most of these bytes; null if nothing matched."""


class RulesCaught(Record, frozen=True, kw_only=True):
    """A live set, split by category rules. The rules' `bytes` and `unknown_bytes` add up to the
    live set's bytes.
    """

    categories_source: Literal["recorded", "guessed"]
    """Whether categories were recorded or are guessed by rules."""
    rules: tuple[Caught, ...]
    """All rules, in order. If categories were recorded, the rules are the configured ones, followed
    by each category that occurs.
    """
    unknown_bytes: int
    """Bytes that no rule matched."""
    unknown_count: int
    """Number of allocations that no rule matched."""
    unknown_total: int
    """Number of stacks that no rule matched."""
    unknown: tuple[Group, ...]
    """The `--top` largest stacks that no rule matched."""
    notes: tuple[str, ...] = ()
    """Limitations of the rules for this file."""
