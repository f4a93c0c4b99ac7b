"""What allocations may be grouped by: the keys of each way, and what its groups are called."""

from __future__ import annotations

import posixpath
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

import memreplay._core as _core
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.categories.ends import ENDS, keys_by_end, marks_of
from memreplay.analysis.categories.origins import BEFORE, ORIGINS, Origins, only_python
from memreplay.analysis.categories.rules import (
    DEFAULT_RULES,
    MERGED_RULES,
    OPTIMIZER,
    UNKNOWN,
    RuleSet,
)
from memreplay.analysis.code.late import Late
from memreplay.analysis.code.naming import name_of_frame, name_of_stack, place_of
from memreplay.analysis.code.operators import node_in, operator_in
from memreplay.analysis.code.plumbing import LIBRARY, code_of, ranks
from memreplay.analysis.groups.kinds import BEFORE_RECORDING, NO_EVENTS, NO_STACK
from memreplay.engine.query import _groups
from memreplay.engine.replay import _measures
from memreplay.snapshot.model import By, Frame, Label, Part, Way

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.groups.frames import FewerFrames
    from memreplay.analysis.groups.recording import Recording
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

MORE_STACKS = 'record with stacks="all" to name it'
OUTSIDE = "(outside of annotations)"
NO_MODULE = "(in no module's forward)"
NO_MODULE_RAN = "(in no module)"
NO_NAME = "(no name)"
FORWARD = Late(r"(?:^|\.)forward$")
# PyTorch's own modules are plumbing, and yet say more than what calls them.
MODULE_FILE = Late(r"/torch/nn/(?:modules|parallel|quantized|qat|quantizable)/")
NO_SIZE = 64  # the name of sizes below 1 byte


class Dimensions:
    """The ways to group one snapshot's allocations; strings and frames are classified once.

    With `guess` what memreplay's recorder noted does not count; `kept` are the frames that do.
    """

    def __init__(
        self,
        snap: Snapshot,
        rules: tuple[Rule, ...] = DEFAULT_RULES,
        *,
        fold: bool = False,
        guess: bool = False,
        kept: FramesKept = "all",
    ) -> None:
        self.snap = snap
        self.fold = fold
        self.kept = kept
        self.file_rank, self.function_rank = ranks(snap.code, snap.project)
        self._fewer: FewerFrames | None = None
        if kept != "all":
            from memreplay.analysis.groups.frames import FewerFrames  # late: for a diff only

            self._fewer = FewerFrames(snap, kept)
            self.function_rank = self._fewer.function_ranks(self.function_rank)
        self.rules = RuleSet(rules)
        self._recorded: Recording | None = None
        if snap.recorded is not None and not guess:
            from memreplay.analysis.groups.recording import Recording  # late: few files have any

            self._recorded = Recording(snap, self.rules)
        self._phases: Dimensions | None = None
        self._keys: dict[tuple[object, ...], Keys] = {}
        self._pairs: dict[tuple[object, ...], Keys] = {}
        self._met: dict[int, Keys] = {}
        self._modules: dict[int, Keys] = {}
        self._origins: Origins | None = None
        self._only_python: bool | None = None
        self._frames: tuple[list[int], list[int]] | None = None
        self._stacks: dict[int, Label] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    @property
    def only_python(self) -> bool:
        """Whether there are stacks, and none has C++ frames, which would say more."""
        if self._only_python is None:
            self._only_python = only_python(self.snap)
        return self._only_python

    @property
    def hides_casts(self) -> bool:
        """Whether rules ask for autocast's casts of weights where the stacks hide some of them."""
        origins = self._origins
        return origins is not None and origins.casts and origins.only_python

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that there may be, besides what is unknown: people's own first."""
        rules = self.rules.rules if self._recorded is None else self.rules.own
        noted = () if self._recorded is None else self._recorded.recorded.categories
        names = dict.fromkeys([*(rule.name for rule in rules), *filter(None, noted)])
        return tuple(name for name in names if name != UNKNOWN)

    def keys(self, usage: Usage, by: Way) -> Keys:
        """The groups of a device's allocations, one way."""
        # Sizes are those of the measure; all else is the same for every one.
        key = (usage.replay.device, by, usage.measure if by == "size" else None)
        if key not in self._keys:
            self._keys[key] = self._made(usage, by)
        return self._keys[key]

    def keys_of_all(self, usage: Usage, ways: Sequence[Way]) -> Keys:
        """The groups by several ways at once."""
        found = self.keys(usage, ways[0])
        for i in range(1, len(ways)):
            key = (found, ways[: i + 1], usage.measure if "size" in ways else None)
            if key not in self._pairs:
                self._pairs[key] = _groups.pair(found, self.keys(usage, ways[i]))
            found = self._pairs[key]
        return found

    def labels(self, usage: Usage, ways: Sequence[Way], name: int) -> tuple[Label, ...]:
        """What each of the ways calls a group by all of them."""
        keys = self.keys_of_all(usage, ways)
        labels: list[Label] = []
        for way in reversed(ways[1:]):
            first, second = keys.of
            labels.append(self.label(usage, way, memoryview(second.names())[name & 0xFFFFFFFF]))
            name = memoryview(first.names())[name >> 32]
            keys = first
        labels.append(self.label(usage, ways[0], name))
        return tuple(reversed(labels))

    def label(self, usage: Usage, by: Way, name: int) -> Label:
        """What the group of this name is called."""
        if by == "size":
            return Label(size_label(0 if name >= NO_SIZE else name + 1))
        if by == "category":
            if self._recorded is not None:
                return Label(self._recorded.category(name))
            return Label(self.rules.name(name))
        if by == "phase":
            if self._recorded is not None:
                return Label(self._recorded.name(by, name))
            return self._guessed_phases().label(usage, "category", name)
        if by == "module" and self._recorded is not None:
            return Label(self._recorded.name(by, name) or NO_MODULE_RAN)
        if by in ("stream", "pool"):
            return Label(self._class_label(usage.replay, by, name))
        if by in ("annotation", "compile_context", "user_metadata"):
            text = self._texts[usage.replay.device, by][name]
            return Label(text if text.strip() else NO_NAME)
        if name == _groups.CARRIED:
            return Label(BEFORE_RECORDING if self.snap.has_events else NO_EVENTS)
        if name == _groups.NO_STACK:
            return Label(NO_STACK, note=MORE_STACKS if self.only_python else "")
        if by == "stack":
            return self.stack_label(name)
        if by == "module":
            return self._module_label(usage, name)
        if by == "directory":
            return Label(self._texts[usage.replay.device, by][name] or "(no directory)")
        if by in ("line", "innermost"):
            user = () if self.is_plumbing(name) else (0,)
            return Label(self.frame_label(name), (self.snap.frame(name),), user)
        text = self.snap.code.string(name)
        if by == "file":
            user = () if self.file_rank[name] > LIBRARY else (0,)
            return Label(text or "(no file)", (Frame("", text, 0),), user)
        return Label(text or "(no function)", (Frame(text, "", 0),))

    # ---- keys

    def _made(self, usage: Usage, by: Way) -> Keys:
        replay = usage.replay
        if by == "size":
            return _groups.size_keys(usage.native)
        if by == "category":
            if self._recorded is not None:
                return self._recorded.categories(replay, Dimensions)
            return _groups.first_rule(self._rules_met(replay), array("Q", self.rules.alike()))
        if by == "phase":
            if self._recorded is not None:
                return self._recorded.keys(replay, by)
            return self._guessed_phases().keys(usage, "category")
        if by == "annotation":
            return self._by_annotation(replay)
        if by in ("compile_context", "user_metadata"):
            return self._by_column(replay, by)
        if by == "directory":
            return self._by_directory(usage)
        if by in ("stream", "pool"):
            classes = replay.classes(by)
            return _groups.row_keys(replay.native, classes.of_events(), classes.of_carried())
        if by == "module":
            if self._recorded is not None:
                return self._recorded.keys(replay, by)
            return self._by_modules(replay)
        return self._by_stack(replay, by)

    def _guessed_phases(self) -> Dimensions:
        from memreplay.analysis.categories.phases import MERGED_PHASE_RULES, PHASE_RULES

        if self._phases is None:
            rules = MERGED_PHASE_RULES if self.rules.likely else PHASE_RULES
            self._phases = Dimensions(self.snap, rules, guess=True, kept=self.kept)
        return self._phases

    def _by_stack(self, replay: Replay, kind: str) -> Keys:
        ranks = self.file_rank, self.function_rank
        if self._fewer is not None:
            return self._fewer.keys(replay, kind, *ranks)
        if kind == "stack" and self.fold:
            return _groups.stack_keys(replay.native, "shown", *ranks, self._operators())
        return _groups.stack_keys(replay.native, kind, *ranks)

    def _operators(self) -> array[int]:
        """Of each frame the first that is of the same operator or node; ABSENT_ID of others."""
        code = self.snap.code
        names: dict[int, tuple[bool, str]] = {}
        for i in code.names()[1]:
            text = code.string(i)
            node = node_in(text)
            if node or (name := operator_in(text)):
                names[i] = (True, node) if node else (False, name)
        found = array("I", [_core.ABSENT_ID]) * code.frames
        first: dict[tuple[bool, str], int] = {}
        if names:
            for frame, function in enumerate(code.functions()):
                if function in names:
                    key = names[function]
                    found[frame] = first.setdefault(key, frame) | key[0] * _groups.NODE_BIT
        return found

    def _by_modules(self, replay: Replay) -> Keys:
        """By the modules' forward functions, the user's and those of PyTorch's own modules.

        Where functions are named with their class, any line of one stands for it.
        """
        code = self.snap.code
        files, functions = code.names()
        forward = {i for i in functions if FORWARD.search(code.string(i))}
        with_class = {i for i in forward if "." in code.string(i)}
        modules = {
            i for i in files if self.file_rank[i] <= LIBRARY or MODULE_FILE.search(code.string(i))
        }
        first: dict[tuple[int, int], int] = {}
        found = array("I", [_core.ABSENT_ID]) * code.frames
        for i in range(code.frames):
            function, file, _ = code.frame(i)
            if function in forward and file in modules:
                stands = first.setdefault((function, file), i)
                found[i] = stands if function in with_class else i
        ranks = self.file_rank, self.function_rank
        keys = _groups.stack_keys(replay.native, "modules", *ranks, found)
        self._modules[replay.device] = keys
        return keys if self._fewer is None else self._fewer.module_keys(replay, keys, ranks)

    def _by_directory(self, usage: Usage) -> Keys:
        files = self.keys(usage, "file")
        files.meet()
        texts: dict[str, int] = {}
        names = array("Q")
        for name in memoryview(files.names()).tolist():
            if name in (_groups.CARRIED, _groups.NO_STACK):
                names.append(name)
            else:
                directory = posixpath.dirname(self.snap.code.string(name))
                names.append(texts.setdefault(directory, len(texts)))
        self._texts[usage.replay.device, "directory"] = list(texts)
        return _groups.renamed(files, names)

    def _by_column(self, replay: Replay, by: Way) -> Keys:
        """By what each event carries; what those of carried blocks said is not known."""
        rows = self._rows(replay, by)
        texts: dict[str, int] = {}
        names = array("Q")
        for name in memoryview(rows.names()).tolist():
            text = self._carried(by, name)
            names.append(texts.setdefault(f"(no {by})" if text is None else text, len(texts)))
        self._texts[replay.device, by] = list(texts)
        return _groups.renamed(rows, names)

    def _rows(self, replay: Replay, by: str) -> Keys:
        """By the id that each event carries, ABSENT_ID for none."""
        column = replay.column(by)
        if isinstance(column, int):
            column &= _core.ABSENT_ID
        return _groups.row_keys(replay.native, column, _core.ABSENT_ID)

    def _carried(self, key: str, name: int) -> str | None:
        """The text of an id, None where it says nothing: PyTorch writes `N/A` and empty texts."""
        if name == _core.ABSENT_ID:
            return None
        found = self.snap.metadata(name)
        text = found if isinstance(found, str) else self.snap.code.string(name)[1:]
        return None if text == "" or (key == "compile_context" and text == "N/A") else text

    def _by_annotation(self, replay: Replay) -> Keys:
        """By the innermost annotation that was open: of those the one that began last."""
        from heapq import heappop, heappush  # late: few group by annotations

        texts = {OUTSIDE: 0}
        changes: list[tuple[int, bool, int, int]] = []
        for number, span in enumerate(spans(self.snap, replay)):
            text = texts.setdefault(span.name, len(texts))
            begin = span.start_event + 1 - replay.first_event
            end = replay.events
            if span.end_event is not None:
                end = span.end_event + 1 - replay.first_event
            if end > begin:
                changes += [(begin, True, number, text), (end, False, number, text)]
        changes.sort()
        # Numbers are in the order in which they began: the highest that is open is the innermost.
        # What ended stays in the heap until it is on top: no change looks at all that are open.
        open_now: dict[int, int] = {}
        heap: list[int] = []
        runs: list[tuple[int, int]] = []
        for event, begins, number, text in changes:
            if begins:
                open_now[number] = text
                heappush(heap, -number)
            else:
                del open_now[number]
            while heap and -heap[0] not in open_now:
                heappop(heap)
            runs.append((event, open_now[-heap[0]] if heap else 0))
        self._texts[replay.device, "annotation"] = list(texts)
        return _groups.run_keys(replay.native, runs, 0)

    def of_rules(self, usage: Usage) -> Keys:
        """The groups by the rule that decides: names are its number, or NO_RULE."""
        return _groups.first_rule(self._rules_met(usage.replay))

    def guessed(self, usage: Usage, event: int) -> frozenset[str]:
        """The categories of which something is only likely, of what is live after an event."""
        likely = set(self.rules.likely)
        if not likely or self._recorded is not None:
            return frozenset()
        found, *_ = self.of_rules(usage).sums(usage.listed(event), usage.native, 0)
        return frozenset(self.rules.name(name) for name, *_ in found if name in likely)

    def _rules_met(self, replay: Replay) -> Keys:
        """By the set of rules, a bit each, that hold."""
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
                    rows = self._by_annotation(replay)
                    texts: list[str | None] = [None, *self._texts[replay.device, key][1:]]
                    names = [texts[name] for name in memoryview(rows.names()).tolist()]
                else:
                    rows = self._rows(replay, key)
                    ids = memoryview(rows.names()).tolist()
                    names = [self._carried(key, name) for name in ids]
                sets = [self.rules.of_text(key, name) for name in names]
                if key == "ends":  # what the step calls back isn't the optimizer's
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
        met = self._rule_keys(replay, anywhere, own, always, masks)
        for rules in others:
            met = _groups.rules_of_both(met, rules)
        return met

    def _masks(self) -> array[int] | None:
        """The rules that can hold for what has a stack, has none, and was there before without
        one: all that origins say where autocast cast nothing. None where it did."""
        if not self.rules.asks("origin"):
            return None
        if self._origins is None:
            self._origins = Origins(self.snap, self.kept)
        if self._origins.casts:
            return None
        origins = (None, *self._origins.of_stackless())
        return array("Q", [self.rules.of_text("origin", origin) for origin in origins])

    def _likely(self, replay: Replay) -> Buffer | None:
        """What `before.py` says of carried blocks; it is loaded where there are any."""
        if self._origins is None or not len(replay.carried("stack")) or self.kept == "none":
            return None
        from memreplay.analysis.categories.before import likely

        found = likely(self.snap, replay, only_python(self.snap))
        return found if self._fewer is None else self._fewer.of_carried(replay, found)

    def _told_apart(self, replay: Replay, masks: array[int]) -> Keys | None:
        """The rules that can hold for each carried block, where some are told apart, and all for
        events: `masks` leave what was there before and has no stack to this, then."""
        of_carried = self._likely(replay)
        if of_carried is None or max(memoryview(of_carried), default=0) <= ORIGINS.index(BEFORE):
            return None
        rows = _groups.row_keys(replay.native, 0, of_carried)
        rows.meet()
        masks[2] = every = (1 << len(self.rules.rules)) - 1
        names = [ORIGINS[name] for name in memoryview(rows.names()).tolist()]
        sets = [every if name is None else self.rules.of_text("origin", name) for name in names]
        return _groups.renamed(rows, array("Q", sets))

    def _of_frames_by_default(self) -> tuple[list[int], list[int]]:
        """As `_of_frames`, of the default rules, whatever rules there are."""
        before = len(self.rules.rules) - len(DEFAULT_RULES)
        if before >= 0 and self.rules.rules[before:] in (DEFAULT_RULES, MERGED_RULES):
            anywhere, own = ([bits >> before for bits in met] for met in self._of_frames())
            return anywhere, own
        return RuleSet(DEFAULT_RULES).of_frames(self.snap)

    def _by_end(self, replay: Replay) -> Keys:
        """By the number of ENDS."""
        steps = bytes((bits & OPTIMIZER) != 0 for bits in self._of_frames_by_default()[0])
        marks = marks_of(self.snap.code, steps) if any(steps) else steps
        if self._fewer is not None:
            marks = self._fewer.marks(marks)
        return keys_by_end(replay, marks)

    def _by_origin(self, replay: Replay) -> Keys:
        """By the number of ORIGINS. The default rules say what a cast may be of: whatever rules
        there are, origins are the same."""
        assert self._origins is not None
        if replay.origins is not None and self._fewer is None:
            return replay.origins
        anywhere, own = self._of_frames_by_default()
        met = self._rule_keys(replay, array("Q", anywhere), array("Q", own), 0, None)
        names = [rule.name for rule in DEFAULT_RULES]
        of_carried = self._likely(replay)
        found = self._origins.keys(replay, _groups.first_rule(met), names, of_carried)
        if self._fewer is not None:
            return self._fewer.origin_keys(replay, found, (self.file_rank, self.function_rank))
        replay.origins = found
        return found

    def _rule_keys(
        self,
        replay: Replay,
        anywhere: array[int],
        own: array[int],
        always: int,
        masks: array[int] | None,
    ) -> Keys:
        """By the rules that frames meet, a bit each."""
        ranks = self.file_rank, self.function_rank
        if self._fewer is not None:
            return self._fewer.rule_keys(replay, anywhere, own, always, ranks, masks)
        return _groups.rule_keys(replay.native, anywhere, own, always, *ranks, masks)

    def _of_frames(self) -> tuple[list[int], list[int]]:
        if self._frames is None:
            self._frames = self.rules.of_frames(self.snap)
        return self._frames

    # ---- labels

    def _class_label(self, replay: Replay, by: Way, name: int) -> str:
        key = None if name == _measures.UNKNOWN_CLASS else replay.classes(by).keys()[name]
        return stream_label(key) if by == "stream" else pool_label(replay.pool_of(key))

    def is_plumbing(self, frame: int) -> bool:
        """Whether a frame is neither the user's own code nor that of a library."""
        return self.rank(frame) > LIBRARY

    def rank(self, frame: int) -> int:
        """Whose a frame is by its file: USER, LIBRARY, or plumbing."""
        return self.file_rank[self.snap.code.frame(frame)[1]]

    def frame_label(self, frame: int) -> str:
        """What a frame is called that stands for a whole stack."""
        return name_of_frame(self.snap.frame(frame)).words

    def call_label(self, frames: Sequence[int], level: int, *, inverted: bool) -> str:
        """What a call of a tree is called: frames that have a line of it, the outermost first, or
        if `inverted` the innermost."""
        at = frames[0 if inverted else -1]
        if level == 1 and len(frames) == 1:  # it may stand for a stack without code
            return self.frame_label(at)
        return place_of(self.snap.frame(at)).words

    def label_frame(self, usage: Usage, stack: int) -> int:
        """The frame that a stack is put down to; ABSENT_ID for the stack of no frames."""
        return usage.label_frame(stack, self.file_rank, self.function_rank)

    def stack_label(self, stack: int) -> Label:
        """A stack, called after the frame that it is put down to (naming.py). Spelled out once."""
        if stack in self._stacks:
            return self._stacks[stack]
        ids = self.snap.code.stack(stack) if self._fewer is None else self._fewer.stack(stack)
        user, libraries = code_of(list(map(self.rank, ids)))
        frames = tuple(map(self.snap.frame, ids))
        text = name_of_stack(frames, user, libraries).words
        found = self._stacks[stack] = Label(text, frames, user, libraries)
        return found

    def _module_label(self, usage: Usage, path: int) -> Label:
        """`Block > Attention`: classes where frames name them, else the calls: `m.py:1 > :2`."""
        ids = self._modules[usage.replay.device].path(path)
        if not ids:
            return Label(NO_MODULE)
        words: list[str] = []
        frames: list[Frame] = []
        for frame in map(self.snap.frame, ids):
            if "." in frame.function:
                words.append(frame.function.removesuffix(".forward"))
                frames.append(replace(frame, line=0))
            elif frames and frames[-1].line and frames[-1].file == frame.file:
                words.append(f":{frame.line}")
                frames.append(frame)
            else:
                line = f":{frame.line}" if frame.line else ""
                words.append(posixpath.basename(frame.file) + line)
                frames.append(frame)
        inward = tuple(reversed(frames))
        return Label(" > ".join(words), inward, tuple(range(len(inward))))


def part_label(part: Part, by: By) -> str:
    """What a pool or stream is called."""
    if by == "stream":
        return stream_label(None if part.stream is UNSET else part.stream)
    return pool_label(None if part.pool is UNSET else part.pool)


def stream_label(stream: int | None) -> str:
    """What a stream is called; None where it is not known."""
    if stream is None:
        return "(stream not known)"
    return "default stream" if stream == 0 else f"stream {stream}"


def pool_label(pool: tuple[int, int] | None) -> str:
    """What a pool is called; None where it is not known."""
    if pool is None:
        return "(pool not known)"
    if pool == (0, 0):
        return "default pool"
    first, second = pool
    kind = "graph pool" if first else "user pool"
    return f"{kind} {first}:{second}"


def size_label(bits: int) -> str:
    """What allocations are called whose bytes have so many bits: 0 of none."""
    if bits == 0:
        return "0 B"
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    low = f"{1 << (bits - 1) % 10} {units[(bits - 1) // 10]}"
    high = f"{1 << bits % 10} {units[bits // 10]}"
    return f"{low} to {high}"
