"""Group by purpose: category or step phase."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from memreplay.analysis.categories.ends import ENDS, keys_by_end, marks_of
from memreplay.analysis.categories.origins import BEFORE, ORIGINS, Origins, only_python
from memreplay.analysis.categories.rules import (
    DEFAULT_RULES,
    MERGED_RULES,
    OPTIMIZER,
    UNKNOWN,
    RuleSet,
    rule_set,
)
from memreplay.analysis.groups.ways.base import Known, Met, Way
from memreplay.analysis.groups.ways.texts import (
    ByAnnotation,
    ByCompileContext,
    ByEventText,
    ByUserMetadata,
)
from memreplay.engine.query import _groups
from memreplay.snapshot.model import Label

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage

# Event fields that rules can match.
_EVENT_TEXTS: dict[str, type[ByEventText]] = {
    way.name: way for way in (ByCompileContext, ByUserMetadata)
}


class ByRules(Way):
    """Group by the first matching rule."""

    nothing = Way.nothing | {UNKNOWN}
    recorded = True
    detail = True

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._met: RulesMet | None = None

    @property
    def met(self) -> RulesMet:
        """Which rules match."""
        if self._met is None:
            self._met = RulesMet(self.known, self.rules())
        return self._met

    def rules(self) -> RuleSet:
        """Return the rules to match if the recorder noted no categories."""
        raise NotImplementedError

    def keys(self, usage: Usage) -> Keys:
        return _groups.first_rule(
            self.met.keys(usage.replay), array("Q", self.met.rules.first_of_name())
        )

    def label(self, usage: Usage, name: int) -> Label:
        return Label(self.met.rules.name(name))


class ByCategory(ByRules):
    """Group by category, recorded or guessed by rules."""

    name = "category"
    help = "have the same [category](#categories)"

    def rules(self) -> RuleSet:
        return self.known.rules

    def keys(self, usage: Usage) -> Keys:
        recorded = self.known.recorded
        if recorded is None:
            return super().keys(usage)

        def of_own(replay: Replay) -> Keys:
            return _groups.first_rule(RulesMet(self.known, rule_set(recorded.own)).keys(replay))

        return recorded.categories(usage.replay, of_own)

    def label(self, usage: Usage, name: int) -> Label:
        recorded = self.known.recorded
        return super().label(usage, name) if recorded is None else Label(recorded.category(name))

    @property
    def names(self) -> tuple[str, ...]:
        """The possible categories except unknown, configured ones first."""
        recorded = self.known.recorded
        rules = self.known.rules.rules if recorded is None else self.known.rules.own
        noted = () if recorded is None else recorded.recorded.categories
        names = dict.fromkeys([*(rule.name for rule in rules), *filter(None, noted)])
        return tuple(name for name in names if name != UNKNOWN)

    def of_rules(self, usage: Usage) -> Keys:
        """Group by the number of the first matching rule, or NO_RULE."""
        return _groups.first_rule(self.met.keys(usage.replay))

    def guessed(self, usage: Usage, event: int) -> frozenset[str]:
        """Return the categories that include guesses in the live set after an event."""
        rules = self.known.rules
        likely = set(rules.likely)
        if not likely or self.known.recorded is not None:
            return frozenset()
        found, *_ = self.of_rules(usage).sums(usage.listed(event), usage.native, 0)
        return frozenset(rules.name(name) for name, *_ in found if name in likely)


class ByPhase(ByRules):
    """Group by step phase, recorded or derived from category rules."""

    name = "phase"
    help = (
        "happened in the same phase of a step: forward, backward, optimizer, …"
        " ([recorded or guessed](#recorded-or-guessed))"
    )

    def rules(self) -> RuleSet:
        # imported late: rarely used
        from memreplay.analysis.categories.phases import MERGED_PHASE_RULES, PHASE_RULES

        return rule_set(MERGED_PHASE_RULES if self.known.rules.likely else PHASE_RULES)

    def keys(self, usage: Usage) -> Keys:
        recorded = self.known.recorded
        return super().keys(usage) if recorded is None else recorded.keys(usage.replay, "phase")

    def label(self, usage: Usage, name: int) -> Label:
        recorded = self.known.recorded
        return (
            super().label(usage, name) if recorded is None else Label(recorded.name("phase", name))
        )


class RulesMet:
    """Determines which rules each allocation matches."""

    def __init__(self, known: Known, rules: RuleSet) -> None:
        self.known, self.rules = known, rules
        self._met: dict[int, Keys] = {}
        self._origins: Origins | None = None
        self._frames: tuple[list[int], list[int]] | None = None

    @property
    def hides_casts(self) -> bool:
        """Whether autocast casts weights but some of the casts can't be recognized, because stacks
        have only Python frames.
        """
        origins = self._origins
        return origins is not None and origins.casts and origins.only_python

    def keys(self, replay: Replay) -> Keys:
        """Group by the set of matching rules, one bit per rule."""
        if replay.device not in self._met:
            self._met[replay.device] = self._meeting(replay)
        return self._met[replay.device]

    def _meeting(self, replay: Replay) -> Keys:
        met_anywhere, met_as_own = self._of_frames()
        anywhere, own = array("Q", met_anywhere), array("Q", met_as_own)
        always = self.rules.always("frames")
        others: list[Keys] = []
        masks = self._masks()
        for key in ("annotation", "compile_context", "user_metadata", "origin", "ends"):
            if self.rules.asks(key):
                names: list[str | None]
                if key == "ends":
                    rows = self._by_end(replay)
                    names = [ENDS[name] for name in memoryview(rows.names()).tolist()]
                elif key == "origin":
                    if masks is not None:
                        if (told := self._told_apart(replay, masks)) is not None:
                            others.append(told)
                        continue
                    rows = self._by_origin(replay)
                    names = [ORIGINS[name] for name in memoryview(rows.names()).tolist()]
                elif key == "annotation":
                    annotations = ByAnnotation(self.known)
                    rows = annotations.of_replay(replay)
                    text = annotations.named.text
                    numbers = memoryview(rows.names()).tolist()
                    names = [text(replay.device, one) if one else None for one in numbers]
                else:
                    said = _EVENT_TEXTS[key](self.known)
                    rows = said.rows(replay)
                    names = [said.carried(name) for name in memoryview(rows.names()).tolist()]
                sets = [self.rules.of_text(key, name) for name in names]
                if key == "ends":  # user code that the step calls back isn't the optimizer's
                    called = memoryview(rows.names()).tolist()
                    sets = [
                        bits & ~self.rules.of_optimizers if name == _groups.CALLED_BACK else bits
                        for bits, name in zip(sets, called, strict=True)
                    ]
                if len(set(sets)) == 1:
                    always &= sets[0]
                    anywhere = array("Q", [bits & (sets[0]) for bits in anywhere])
                    own = array("Q", [bits & (sets[0]) for bits in own])
                else:
                    others.append(_groups.renamed(rows, array("Q", sets)))
        met = self._rule_keys(replay, Met(anywhere, own, always), masks)
        for rules in others:
            met = _groups.rules_of_both(met, rules)
        return met

    def _masks(self) -> array[int] | None:
        """Return the rules that can match allocations with a stack, without a stack, and
        carried-over blocks without one.

        If there are no autocast casts, origins depend on nothing else. Return None if there are
        casts.
        """
        if not self.rules.asks("origin"):
            return None
        if self._origins is None:
            self._origins = Origins(self.known.snap, self.known.kept)
        if self._origins.casts:
            return None
        origins = (None, *self._origins.of_stackless())
        return array("Q", [self.rules.of_text("origin", origin) for origin in origins])

    def _likely(self, replay: Replay) -> Buffer | None:
        """Return the origins of carried-over blocks. Imports `before.py` only if there are any."""
        if self._origins is None or not len(replay.carried("stack")) or self.known.kept == "none":
            return None
        from memreplay.analysis.categories.before import likely

        found = likely(self.known.snap, replay, only_python(self.known.snap))
        return found if self.known.fewer is None else self.known.fewer.of_carried(replay, found)

    def _told_apart(self, replay: Replay, masks: array[int]) -> Keys | None:
        """Return the rules that can match each carried-over block by its inferred origin, and all
        rules for recorded allocations. None if no origins could be inferred.

        Also changes `masks`, which then no longer restricts carried-over blocks without a stack.
        """
        of_carried = self._likely(replay)
        if of_carried is None or max(memoryview(of_carried), default=0) <= ORIGINS.index(BEFORE):
            return None
        rows = _groups.row_keys(replay.native, 0, of_carried)
        rows.find_all()
        masks[2] = every = (1 << len(self.rules.rules)) - 1
        names = [ORIGINS[name] for name in memoryview(rows.names()).tolist()]
        sets = [every if name is None else self.rules.of_text("origin", name) for name in names]
        return _groups.renamed(rows, array("Q", sets))

    def _of_frames_by_default(self) -> tuple[list[int], list[int]]:
        """Return the same as `_of_frames`, but for the default rules."""
        before = len(self.rules.rules) - len(DEFAULT_RULES)
        if before >= 0 and self.rules.rules[before:] in (DEFAULT_RULES, MERGED_RULES):
            found = self._of_frames()
            if not before:
                return found
            anywhere, own = ([bits >> before for bits in met] for met in found)
            return anywhere, own
        return rule_set(DEFAULT_RULES).of_frames(self.known.snap)

    def _by_end(self, replay: Replay) -> Keys:
        """Group allocations by their index in ENDS."""
        steps = bytes((bits & OPTIMIZER) != 0 for bits in self._of_frames_by_default()[0])
        marks = marks_of(self.known.snap.code, steps) if any(steps) else steps
        if self.known.fewer is not None:
            marks = self.known.fewer.marks(marks)
        return keys_by_end(replay, marks)

    def _by_origin(self, replay: Replay) -> Keys:
        """Group allocations by their index in ORIGINS.

        The default rules determine what a cast's input is, so origins don't depend on the
        configured rules.
        """
        assert self._origins is not None
        if replay.origins is not None and self.known.fewer is None:
            return replay.origins
        anywhere, own = self._of_frames_by_default()
        met = self._rule_keys(replay, Met(array("Q", anywhere), array("Q", own)), None)
        names = [rule.name for rule in DEFAULT_RULES]
        of_carried = self._likely(replay)
        found = self._origins.keys(replay, _groups.first_rule(met), names, of_carried)
        if self.known.fewer is not None:
            return self.known.fewer.origin_keys(replay, found, self.known.ranks)
        replay.origins = found
        return found

    def _rule_keys(self, replay: Replay, met: Met, masks: array[int] | None) -> Keys:
        """Group by the set of rules that the stack's frames match, one bit per rule."""
        ranks = self.known.ranks
        if self.known.fewer is not None:
            return self.known.fewer.rule_keys(replay, met, ranks, masks)
        return _groups.rule_keys(replay.native, met.anywhere, met.own, met.always, *ranks, masks)

    def _of_frames(self) -> tuple[list[int], list[int]]:
        if self._frames is None:
            self._frames = self.rules.of_frames(self.known.snap)
        return self._frames
