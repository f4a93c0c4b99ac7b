"""Group by recorded texts: annotations, compile contexts, metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.groups.ways.base import Known, Numbered, Way
from memreplay.engine.query import _groups
from memreplay.snapshot.model import Label

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage

OUTSIDE = "(outside of annotations)"
NO_NAME = "(no name)"


class ByText(Way):
    """Base class for grouping by a text."""

    of_stacks = False

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.named = Numbered()

    def label(self, usage: Usage, name: int) -> Label:
        text = self.named.text(usage.replay.device, name)
        return Label(text if text.strip() else NO_NAME)


class ByAnnotation(ByText):
    """Group by the innermost open annotation, which is the one that started last."""

    name = "annotation"
    help = "happened in the same innermost annotation"
    nothing = Way.nothing | {OUTSIDE}
    detail = True

    def keys(self, usage: Usage) -> Keys:
        return self.of_replay(usage.replay)

    def of_replay(self, replay: Replay) -> Keys:
        """Group all of a device's allocations."""
        from heapq import heappop, heappush  # imported late: rarely used

        changes: list[tuple[int, bool, int, int]] = []
        found = spans(self.known.snap, replay)
        names = (OUTSIDE, *(span.name for span in found))
        outside, *texts = self.named.numbers(replay.device, names)
        for number, (span, text) in enumerate(zip(found, texts, strict=True)):
            begin = span.start_event + 1 - replay.first_event
            end = replay.events
            if span.end_event is not None:
                end = span.end_event + 1 - replay.first_event
            if end > begin:
                changes += [(begin, True, number, text), (end, False, number, text)]
        changes.sort()
        # Annotations are numbered in the order in which they start, so the open annotation with the
        # highest number is the innermost. Annotations that have ended stay in the heap until they
        # reach its top, which avoids scanning all open ones.
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
            runs.append((event, open_now[-heap[0]] if heap else outside))
        return _groups.run_keys(replay.native, runs, outside)

    def is_uninformative(self, replay: Replay) -> bool:
        return not spans(self.known.snap, replay)


class ByEventText(ByText):
    """Group by a text in each event. Carried-over blocks have no known text."""

    empty: tuple[str, ...] = ("",)
    """Placeholders that PyTorch writes for missing text."""

    def keys(self, usage: Usage) -> Keys:
        rows = self.rows(usage.replay)
        texts = map(self.carried, memoryview(rows.names()).tolist())
        said = (f"(no {self.name})" if text is None else text for text in texts)
        return _groups.renamed(rows, self.named.numbers(usage.replay.device, said))

    def rows(self, replay: Replay) -> Keys:
        """Group by each event's text id, which is ABSENT_ID if it has none."""
        return _groups.row_keys(replay.native, self._column(replay), _core.ABSENT_ID)

    def carried(self, name: int) -> str | None:
        """Return an id's text; None if it's empty."""
        if name == _core.ABSENT_ID:
            return None
        snap = self.known.snap
        found = snap.metadata(name)
        text = found if isinstance(found, str) else snap.code.string(name)[1:]
        return None if text in self.empty else text

    def is_uninformative(self, replay: Replay) -> bool:
        return self._column(replay) == _core.ABSENT_ID

    def _column(self, replay: Replay) -> memoryview | int:
        column = replay.column(self.name)
        return column & _core.ABSENT_ID if isinstance(column, int) else column


class ByCompileContext(ByEventText):
    """Group by an event's compile context."""

    name = "compile_context"
    help = "carry the same compile context; none and PyTorch's `N/A` are one group"
    nothing = Way.nothing | {"(no compile_context)"}
    empty = ("", "N/A")


class ByUserMetadata(ByEventText):
    """Group by the user metadata attached to an event."""

    name = "user_metadata"
    help = "have the same user metadata; none is one group"
    nothing = Way.nothing | {"(no user_metadata)"}
