"""Group by code: stacks and their frames, functions, files and modules."""

from __future__ import annotations

import posixpath
from array import array
from typing import TYPE_CHECKING

from msgspec.structs import replace

import memreplay._core as _core
from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.code.operators import node_in, operator_in
from memreplay.analysis.code.patterns import regexes
from memreplay.analysis.code.plumbing import LIBRARY
from memreplay.analysis.groups.ways.base import (
    FILE,
    FRAME,
    FUNCTION,
    NO_STACK,
    STACK,
    Known,
    Numbered,
    Way,
)
from memreplay.engine.query import _groups
from memreplay.snapshot.model import Frame, Label

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage

MORE_STACKS = 'record with stacks="all" to name it'
NO_MODULE = "(in no module's forward)"
NO_MODULE_RAN = "(in no module)"
FORWARD = regexes((1, r"(?:^|\.)forward$"))
# PyTorch's own modules are plumbing, but more informative than their callers.
MODULE_FILE = regexes((1, r"/torch/nn/(?:modules|parallel|quantized|qat|quantizable)/"))
STACKLESS = (_groups.CARRIED, _groups.NO_STACK)


class ByCode(Way):
    """Group by a property of the allocation's stack."""

    def keys(self, usage: Usage) -> Keys:
        known, replay = self.known, usage.replay
        if known.fewer is not None:
            return known.fewer.keys(replay, self.name, *known.ranks)
        return _groups.stack_keys(replay.native, self.name, *known.ranks)

    def label(self, usage: Usage, name: int) -> Label:
        if name == _groups.CARRIED:
            return Label(self.known.carried_label)
        if name == _groups.NO_STACK:
            return Label(NO_STACK, note=MORE_STACKS if self.known.only_python else "")
        return self.code_label(usage, name)

    def code_label(self, usage: Usage, name: int) -> Label:
        """Return the label of a group with a stack."""
        raise NotImplementedError

    def key_of(self, usage: Usage, stack: int) -> int:
        """Return the group for reserved memory that was requested with this stack."""
        raise NotImplementedError


class ByStack(ByCode):
    """Group by the full stack."""

    name = "stack"
    help = "have the same call stack"
    title = "allocated at, and its callers"
    requested_title = "requested at, and its callers"
    pinned_title = "blocked by, and its callers"
    noun = "code path"
    code = STACK

    def keys(self, usage: Usage) -> Keys:
        known = self.known
        if not known.fold or known.fewer is not None:
            return super().keys(usage)
        operators = self._operators()
        return _groups.stack_keys(usage.replay.native, "shown", *known.ranks, operators)

    def code_label(self, usage: Usage, name: int) -> Label:
        return self.known.stack_label(name)

    def key_of(self, usage: Usage, stack: int) -> int:
        return stack

    def _operators(self) -> array[int]:
        """Return, for each frame, the first frame with the same operator or autograd node;
        ABSENT_ID if it has neither.
        """
        code = self.known.snap.code
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


class ByLine(ByCode):
    """Group by the frame that the stack is attributed to."""

    name = "line"
    help = "have stacks attributed to the same line: that of the innermost frame in your own code"
    requested_title = "requested by"
    noun = "line"
    code = FRAME

    def code_label(self, usage: Usage, name: int) -> Label:
        known = self.known
        user = () if known.is_plumbing(name) else (0,)
        return Label(known.frame_label(name), (known.snap.frame(name),), user)

    def key_of(self, usage: Usage, stack: int) -> int:
        return self.known.label_frame(usage, stack)


class ByInnermost(ByLine):
    """Group by the innermost frame, whether it's user code or not."""

    name = "innermost"
    help = "have the same innermost frame, in whatever code"
    title = "innermost frame"
    requested_title = ""

    def key_of(self, usage: Usage, stack: int) -> int:
        return int(self.known.snap.code.stack(stack)[0])


class ByFunction(ByCode):
    """Group by the function of the attributed frame."""

    name = "function"
    help = "have stacks attributed to the same function: that of this frame"
    code = FUNCTION

    def code_label(self, usage: Usage, name: int) -> Label:
        text = self.known.snap.code.string(name)
        return Label(text or "(no function)", (Frame(text, "", 0),))

    def key_of(self, usage: Usage, stack: int) -> int:
        return self.known.snap.code.frame(self.known.label_frame(usage, stack))[0]


class ByFile(ByCode):
    """Group by the file of the attributed frame."""

    name = "file"
    help = "have stacks attributed to the same file"
    noun = "file"
    code = FILE

    def code_label(self, usage: Usage, name: int) -> Label:
        text = self.known.snap.code.string(name)
        user = () if self.known.file_rank[name] > LIBRARY else (0,)
        return Label(text or "(no file)", (Frame("", text, 0),), user)

    def key_of(self, usage: Usage, stack: int) -> int:
        return self.known.snap.code.frame(self.known.label_frame(usage, stack))[1]


class ByDirectory(ByCode):
    """Group by the folder of the attributed frame's file."""

    name = "directory"
    help = "have stacks attributed to files of the same folder"

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._files = ByFile(known)
        self._named = Numbered()

    def keys(self, usage: Usage) -> Keys:
        files = self._files.keys(usage)
        files.find_all()
        names = memoryview(files.names()).tolist()
        string = self.known.snap.code.string
        folders = [posixpath.dirname(string(one)) for one in names if one not in STACKLESS]
        numbers = iter(self._named.numbers(usage.replay.device, folders))
        found = [name if name in STACKLESS else next(numbers) for name in names]
        return _groups.renamed(files, array("Q", found))

    def code_label(self, usage: Usage, name: int) -> Label:
        return Label(self._named.text(usage.replay.device, name) or "(no directory)")


class ByModule(ByCode):
    """Group by module, as recorded or as inferred from `forward` functions in the stack."""

    name = "module"
    help = (
        "belong to the same module by name (`GPT.h.0.up`), if [recorded](#recorded-or-guessed)."
        " Otherwise, ran under the same `forward` functions, outermost first: by class if frames"
        " name it (`Gpt > Block > Linear`), else by the calls (`model.py:78 > :58`); PyTorch's own"
        " modules are included"
    )
    recorded = True
    detail = True
    nothing = Way.nothing | {NO_MODULE, UNKNOWN}

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._paths: dict[int, Keys] = {}

    def keys(self, usage: Usage) -> Keys:
        known, replay = self.known, usage.replay
        if known.recorded is not None:
            return known.recorded.keys(replay, "module")
        keys = self._paths[replay.device] = self._by_forward(replay)
        return keys if known.fewer is None else known.fewer.module_keys(replay, keys, known.ranks)

    def label(self, usage: Usage, name: int) -> Label:
        if self.known.recorded is not None:
            return Label(self.known.recorded.name("module", name) or NO_MODULE_RAN)
        return super().label(usage, name)

    def code_label(self, usage: Usage, name: int) -> Label:
        """Return class names if frames have them (`Block > Attention`), otherwise lines (`m.py:1 >
        :2`).
        """
        ids = self._paths[usage.replay.device].path(name)
        if not ids:
            return Label(NO_MODULE)
        words: list[str] = []
        frames: list[Frame] = []
        for frame in map(self.known.snap.frame, ids):
            if "." in frame.function:
                words.append(frame.function.removesuffix(".forward"))
                frames.append(replace(frame, line=0))
            elif frames and frames[-1].line and frames[-1].file == frame.file:
                words.append(f":{frame.line}")
                frames.append(frame)
            else:
                line = f":{frame.line}" if frame.line else ""
                words.append(frame.file.replace("\\", "/").rpartition("/")[2] + line)
                frames.append(frame)
        inward = tuple(reversed(frames))
        return Label(" > ".join(words), inward, tuple(range(len(inward))))

    def column_text(self, usage: Usage, name: int) -> str | None:
        text = self.label(usage, name).text
        if self.known.recorded is not None:
            return None if text in (NO_MODULE_RAN, UNKNOWN) else text
        ran = name not in STACKLESS and self._paths[usage.replay.device].path(name)
        return text if ran else None

    def _by_forward(self, replay: Replay) -> Keys:
        """Group by the modules' forward functions in the stack, both the user's and PyTorch's.

        If function names include the class, all lines of a function count as one.
        """
        known, code = self.known, self.known.snap.code
        files, functions = code.names()
        forward = {i for i in functions if FORWARD.search(code.string(i))}
        with_class = {i for i in forward if "." in code.string(i)}
        modules = {
            i for i in files if known.file_rank[i] <= LIBRARY or MODULE_FILE.search(code.string(i))
        }
        first: dict[tuple[int, int], int] = {}
        found = array("I", [_core.ABSENT_ID]) * code.frames
        for i in range(code.frames):
            function, file, _ = code.frame(i)
            if function in forward and file in modules:
                stands = first.setdefault((function, file), i)
                found[i] = stands if function in with_class else i
        return _groups.stack_keys(replay.native, "modules", *known.ranks, found)
