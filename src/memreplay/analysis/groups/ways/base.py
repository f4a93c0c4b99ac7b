"""The base class of grouping keys, and facts about a snapshot that they share."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from memreplay.analysis.categories.origins import only_python
from memreplay.analysis.categories.rules import DEFAULT_RULES, rule_set
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

# Labels of groups without a stack.
BEFORE_RECORDING = "(allocated before the recording)"
NO_EVENTS = "(no events were recorded)"
NO_STACK = "(recorded without a stack)"

# How much of the stack a group's allocations share. With several keys, the one that shares most
# determines the location.
NO_CODE, FUNCTION, FILE, FRAME, STACK = range(5)


class Met(Struct, frozen=True):
    """The rules that match, as one bit per rule. `anywhere`: for each frame, wherever it is in a
    stack. `own`: for each frame, if the stack is attributed to it. `always`: for every stack.
    """

    anywhere: array[int]
    own: array[int]
    always: int = 0


class Way:
    """A key to group by. The class defines the key's names and how groups are displayed. An
    instance groups one snapshot's allocations.
    """

    name: ClassVar[str]
    """Name in `--by`, in JSON and on the page."""
    help: ClassVar[str]
    """What a group's allocations have in common, as the end of a sentence with "allocations that".
    Markdown, with links as in docs/.
    """
    title: ClassVar[str] = ""
    """Column heading; by default its name."""
    requested_title: ClassVar[str] = ""
    """Column heading for groups of reserved memory by requesting code; by default the title."""
    pinned_title: ClassVar[str] = ""
    """Column heading for groups that block free memory; by default the title."""
    noun: ClassVar[str] = "group"
    """Name of one group: `line`, `file`."""
    code: ClassVar[int] = NO_CODE
    """How much of the stack a group's allocations share. Keys with NO_CODE can't group reserved
    memory.
    """
    nothing: ClassVar[frozenset[str]] = frozenset({BEFORE_RECORDING, NO_EVENTS, NO_STACK})
    """Labels for missing information. The page omits a key if it has only these labels."""
    of_stacks: ClassVar[bool] = True
    """Whether groups depend on stacks, whose frames may differ between recordings."""
    recorded: ClassVar[bool] = False
    """Whether the key uses the recorder's notes if there are any. The table of allocations has a
    column for each of these keys.
    """
    of_measure: ClassVar[bool] = False
    """Whether groups depend on the measure."""
    of_blocks: ClassVar[bool] = False
    """Whether the key groups by properties of blocks rather than of code."""
    parts: ClassVar[bool] = False
    """Whether groups are parts of a device with their own reserved memory and peaks, as in
    `Usage.parts`.
    """
    detail: ClassVar[bool] = False
    """Whether the page shows the key in an allocation's details."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def keys(self, usage: Usage) -> Keys:
        """Return the group of each of a device's allocations."""
        raise NotImplementedError

    def label(self, usage: Usage, name: int) -> Label:
        """Return the label of a group, given its number in `keys`."""
        raise NotImplementedError

    def is_uninformative(self, replay: Replay) -> bool:
        """Return True if all of a device's groups have `nothing` labels, as far as that's cheap to
        find out.
        """
        return False

    def column_text(self, usage: Usage, name: int) -> str | None:
        """Return a group's text in a table column; None if it's unknown."""
        return self.label(usage, name).text


class Numbered:
    """Assigns numbers to texts, per device."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}

    def numbers(self, device: int, texts: Iterable[str]) -> array[int]:
        """Return a number per text. Equal texts have equal numbers."""
        known: dict[str, int] = {}
        found = array("Q", [known.setdefault(text, len(known)) for text in texts])
        self._texts[device] = list(known)
        return found

    def text(self, device: int, number: int) -> str:
        """Return the text that a number stands for."""
        return self._texts[device][number]


class Known:
    """Facts about a snapshot that all keys share.

    Strings and frames are classified only once. `guess`: ignore recorded notes. `kept`: the kinds
    of frames to use.
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
            # Imported late: only for diffs
            from memreplay.analysis.groups.ways.frames import FewerFrames

            self.fewer = FewerFrames(snap, kept)
            self.function_rank = self.fewer.function_ranks(self.function_rank)
        self.rules = rule_set(rules)
        self.recorded: Recording | None = None
        if snap.recorded is not None and not guess:
            # Imported late: few files need it.
            from memreplay.analysis.groups.ways.recording import Recording

            self.recorded = Recording(snap, self.rules)
        self._only_python: bool | None = None
        self._stacks: dict[int, Label] = {}

    @property
    def ranks(self) -> tuple[bytes, bytes]:
        """The rank (user, library or plumbing) of each string, as a file name and as a function
        name.
        """
        return self.file_rank, self.function_rank

    @property
    def carried_label(self) -> str:
        """The label of carried-over blocks without a stack."""
        if self.snap.has_events:
            return BEFORE_RECORDING
        # Even without events, blocks of the final state can have stacks.
        return NO_STACK if self.snap.code.stacks > 1 else NO_EVENTS  # stack 0 is empty

    @property
    def only_python(self) -> bool:
        """Whether there are stacks, none of which has C++ frames."""
        if self._only_python is None:
            self._only_python = only_python(self.snap)
        return self._only_python

    def is_plumbing(self, frame: int) -> bool:
        """Return whether a frame is neither user nor library code."""
        return self.rank(frame) > LIBRARY

    def rank(self, frame: int) -> int:
        """Return a frame's rank by its file: USER, LIBRARY, or a higher one for plumbing."""
        return self.file_rank[self.snap.code.frame(frame)[1]]

    def frame_label(self, frame: int) -> str:
        """Return the label of a frame that represents a whole stack."""
        return name_of_frame(self.snap.frame(frame)).words

    def call_label(self, frames: Sequence[int], level: int, *, inverted: bool) -> str:
        """Return the label of a call in a tree. `frames` are shown on one line."""
        at = frames[0 if inverted else -1]
        if level == 1 and len(frames) == 1:  # the stack may have no user or library code
            return self.frame_label(at)
        return place_of(self.snap.frame(at)).words

    def label_frame(self, usage: Usage, stack: int) -> int:
        """Return the frame that a stack is attributed to; ABSENT_ID for the empty stack."""
        return usage.label_frame(stack, self.file_rank, self.function_rank)

    def stack_label(self, stack: int) -> Label:
        """Return a stack's label, named after the frame that the stack is attributed to
        (naming.py). Cached.
        """
        if stack in self._stacks:
            return self._stacks[stack]
        ids = self.snap.code.stack(stack) if self.fewer is None else self.fewer.stack(stack)
        file_rank, frame = self.file_rank, self.snap.code.frame
        user, libraries = code_of([file_rank[frame(i)[1]] for i in ids])
        frames = tuple(map(self.snap.frame, ids))
        text = name_of_stack(frames, user, libraries).words
        found = self._stacks[stack] = Label(text, frames, user, libraries)
        return found
