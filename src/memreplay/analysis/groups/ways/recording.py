"""Group by the recorder's notes only, without guesses."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Literal

from memreplay.analysis.categories.rules import UNKNOWN, RuleSet, rule_set
from memreplay.engine.query import _groups
from memreplay.engine.query._vectors import joined, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.engine.query._groups import Keys
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

Noted = Literal["category", "phase", "module"]
NOTED = 1 << 8  # number of the first recorded category; lower numbers are rules
PLACES = {"category": 0, "phase": 1, "module": 2}


class Recording:
    """Groups one snapshot's allocations by the recorder's notes."""

    def __init__(self, snap: Snapshot, rules: RuleSet) -> None:
        assert snap.recorded is not None
        self.recorded, self.own = snap.recorded, rules.own
        self.names: dict[str, Sequence[str]] = {
            "category": self.recorded.categories,
            "phase": self.recorded.phases,
            "module": self.recorded.modules,
        }

    def name(self, by: Noted, number: int) -> str:
        """Return the name of a group from `keys`."""
        names = self.names[by]
        found = names[number] if number < len(names) else UNKNOWN
        return found or ("" if by == "module" else UNKNOWN)

    def _first(self, by: Noted) -> Vector:
        """Map each number (and one past the last) to the first number with the same name, because
        several modules can have the same name.
        """
        first: dict[str, int] = {}
        names = (self.name(by, number) for number in range(len(self.names[by]) + 1))
        return vector([first.setdefault(name, i) for i, name in enumerate(names)], "I")

    def keys(self, replay: Replay, by: Noted) -> Keys:
        """Group by one kind of note. The group for unknown is one past the last number."""
        of_kind = joined([self.recorded.kinds[PLACES[by]], [len(self.names[by])]])
        numbers = self._first(by)[of_kind]
        of_events, of_carried = (
            numbers[kinds.lower(len(numbers) - 1)]
            for kinds in (self.recorded.of_events(replay), self.recorded.of_carried(replay))
        )
        return _groups.row_keys(replay.native, of_events, of_carried)

    def categories(self, replay: Replay, by_own_rules: Callable[[Replay], Keys]) -> Keys:
        """Group by category. The first configured rule that matches decides; otherwise, it's the
        recorded category.
        """
        noted = self.keys(replay, "category")
        names = array("Q", [NOTED + name for name in memoryview(noted.names()).tolist()])
        noted = _groups.renamed(noted, names)
        if not self.own:
            return noted
        by_rule = by_own_rules(replay)
        both = _groups.pair(by_rule, noted)
        both.find_all()
        first = memoryview(by_rule.names()).tolist()
        second = memoryview(noted.names()).tolist()
        rules = rule_set(self.own).first_of_name()
        known: dict[str, int] = {}
        for i, name in enumerate(self.recorded.categories):
            known.setdefault(name, NOTED + i)
        of_rule = [known.get(self.own[rule].name, rule) for rule in rules]
        return _groups.renamed(
            both,
            array(
                "Q",
                [
                    of_rule[first[name >> 32]]
                    if first[name >> 32] < len(rules)
                    else second[name & 0xFFFFFFFF]
                    for name in memoryview(both.names()).tolist()
                ],
            ),
        )

    def category(self, name: int) -> str:
        """Return the name of a group from `categories`."""
        return self.own[name].name if name < NOTED else self.name("category", name - NOTED)
