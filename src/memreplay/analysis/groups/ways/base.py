"""The base of ways to group, and the facts about a snapshot that all of them share."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar

from memreplay.analysis.categories.origins import only_python
from memreplay.analysis.categories.rules import DEFAULT_RULES, RuleSet
from memreplay.analysis.code.naming import name_of_frame, name_of_stack, place_of
from memreplay.analysis.code.plumbing import LIBRARY, code_of, ranks
from memreplay.snapshot.model import Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.groups.ways.frames import FewerFrames
    from memreplay.analysis.groups.ways.recording import Recording
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# Labels of the groups that have no stack.
BEFORE_RECORDING = "(allocated before the recording)"
NO_EVENTS = "(no events were recorded)"
NO_STACK = "(recorded without a stack)"

# The part of a stack that a group shares. Of several ways, the highest names the place.
NO_CODE, FUNCTION, FILE, FRAME, STACK = range(5)


class Way:
    """A way to group. The class says what it's called and how its groups are shown; an object of it
    groups the allocations of one snapshot."""

    name: ClassVar[str]
    """As it's typed after `--by`, and what JSON and the page call it."""
    help: ClassVar[str]
    """Which allocations it puts together, after "allocations that": Markdown, links as in docs/."""
    title: ClassVar[str] = ""
    """The heading of a column of its groups; by default its name."""
    asked_title: ClassVar[str] = ""
    """The same of reserved memory, by who asked for it; by default the title."""
    pinned_title: ClassVar[str] = ""
    """The same of who blocks free memory; by default the title."""
    noun: ClassVar[str] = "group"
    """The name of one of its groups: `line`, `file`."""
    code: ClassVar[int] = NO_CODE
    """The part of a stack that a group shares. Ways of NO_CODE can't group reserved memory."""
    nothing: ClassVar[frozenset[str]] = frozenset({BEFORE_RECORDING, NO_EVENTS, NO_STACK})
    """Labels for missing information: a page leaves out a way that has no other labels."""
    of_stacks: ClassVar[bool] = True
    """Whether groups depend on stacks, which two recordings may have with other frames."""
    recorded: ClassVar[bool] = False
    """Whether it groups by what memreplay's recorder noted, where it did. The table of allocations
    has a column of each such way."""
    of_measure: ClassVar[bool] = False
    """Whether the groups differ from measure to measure."""
    of_blocks: ClassVar[bool] = False
    """Whether groups are of blocks, whatever code asked for them."""
    parts: ClassVar[bool] = False
    """Whether groups are parts of a device, each with its own reserved memory and peaks: the parts
    of `Usage.parts`."""
    detail: ClassVar[bool] = False
    """Whether a page says it in the details of each single allocation."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def keys(self, usage: Usage) -> Keys:
        """Return the group that each allocation of a device is in."""
        raise NotImplementedError

    def label(self, usage: Usage, name: int) -> Label:
        """Return what the group of this name, one of those of `keys`, is called."""
        raise NotImplementedError

    def says_nothing(self, replay: Replay) -> bool:
        """Whether all groups of a device have labels of `nothing`, if that is quickly known."""
        return False

    def column_text(self, usage: Usage, name: int) -> str | None:
        """Return the text of a group in a column of a table; None if it isn't known."""
        return self.label(usage, name).text


class Numbered:
    """The texts that groups are called by, which are numbers of them, device by device."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}

    def numbers(self, device: int, texts: Iterable[str]) -> array[int]:
        """Return a number for each text, the same for the same; they are remembered."""
        known: dict[str, int] = {}
        found = array("Q", [known.setdefault(text, len(known)) for text in texts])
        self._texts[device] = list(known)
        return found

    def text(self, device: int, number: int) -> str:
        """Return the text of a number."""
        return self._texts[device][number]


class Known:
    """The facts about a snapshot that all ways share; strings and frames are classified once.

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
        self.fewer: FewerFrames | None = None
        if kept != "all":
            from memreplay.analysis.groups.ways.frames import FewerFrames  # late: for a diff only

            self.fewer = FewerFrames(snap, kept)
            self.function_rank = self.fewer.function_ranks(self.function_rank)
        self.rules = RuleSet(rules)
        self.recorded: Recording | None = None
        if snap.recorded is not None and not guess:
            # late: few files have any
            from memreplay.analysis.groups.ways.recording import Recording

            self.recorded = Recording(snap, self.rules)
        self._only_python: bool | None = None
        self._stacks: dict[int, Label] = {}

    @property
    def ranks(self) -> tuple[bytes, bytes]:
        """The rank of each string, as a file and as a function: user, library or plumbing."""
        return self.file_rank, self.function_rank

    @property
    def only_python(self) -> bool:
        """Whether there are stacks, and none has C++ frames, which would say more."""
        if self._only_python is None:
            self._only_python = only_python(self.snap)
        return self._only_python

    def is_plumbing(self, frame: int) -> bool:
        """Whether a frame is neither the user's own code nor that of a library."""
        return self.rank(frame) > LIBRARY

    def rank(self, frame: int) -> int:
        """The rank of a frame by its file: USER, LIBRARY, or plumbing."""
        return self.file_rank[self.snap.code.frame(frame)[1]]

    def frame_label(self, frame: int) -> str:
        """The label of a frame that represents a whole stack."""
        return name_of_frame(self.snap.frame(frame)).words

    def call_label(self, frames: Sequence[int], level: int, *, inverted: bool) -> str:
        """The label of a call of a tree: its frames share a line, the outermost first, or with
        `inverted` the innermost."""
        at = frames[0 if inverted else -1]
        if level == 1 and len(frames) == 1:  # it may represent a stack without code
            return self.frame_label(at)
        return place_of(self.snap.frame(at)).words

    def label_frame(self, usage: Usage, stack: int) -> int:
        """The frame that a stack is attributed to; ABSENT_ID for the stack of no frames."""
        return usage.label_frame(stack, self.file_rank, self.function_rank)

    def stack_label(self, stack: int) -> Label:
        """A stack, named after the frame it's attributed to (naming.py). Spelled out once."""
        if stack in self._stacks:
            return self._stacks[stack]
        ids = self.snap.code.stack(stack) if self.fewer is None else self.fewer.stack(stack)
        user, libraries = code_of(list(map(self.rank, ids)))
        frames = tuple(map(self.snap.frame, ids))
        text = name_of_stack(frames, user, libraries).words
        found = self._stacks[stack] = Label(text, frames, user, libraries)
        return found
