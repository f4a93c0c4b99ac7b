"""Parse the explorer's typed input (moments), and write files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.parsing import parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.errors import UsageError
from memreplay.explore.commands_for import moment_of_both
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from memreplay.commands.at.result import AtReport
    from memreplay.commands.fragmentation.result import FragmentationReport
    from memreplay.explore.commands_for import Compared
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.render.document import Document
    from memreplay.snapshot.record import Record

BAR = 40  # width of a segment's bar, in cells


def moment_of(explored: Explored, look: Look, text: str) -> int:
    """Return the event for a moment, in the forms of `memreplay at`. Raises UsageError."""
    when = parse_when(_without_commas(text.strip()))
    return resolve(explored.snap, explored.usage(look), when)


def _without_commas(text: str) -> str:
    """Drop thousands separators (`1,200`), but keep other commas, which annotations may contain."""
    return text.replace(",", "") if text[:1].isdigit() else text


def exported(explored: Explored, look: Look, name: str) -> str:
    """Write the view to a new file, in the same format as the command line.

    Return the message to show. Raises UsageError and OSError.
    """
    from memreplay.commands.at.find import AtOptions, at_report
    from memreplay.commands.at.text import at_document
    from memreplay.commands.fragmentation.find import fragmentation_report
    from memreplay.commands.fragmentation.text import fragmentation_document

    ending = _ending(name)
    selection = Selection(
        measure=look.measure,
        by=None if look.view in ("tree", "list", "segments") else look.by,
        top=0,
        device=look.device,
        pool=look.pool,
        stream=look.stream,
        filters=look.filters,
        rules=explored.rules,
        fold=ending != ".json" and not look.whole and look.view != "tree",
    )
    found: FragmentationReport | AtReport
    if look.view == "segments":
        found = fragmentation_report(
            explored.snap,
            selection,
            at=_when(explored, look, look.event),
            bars=0 if ending == ".json" else BAR,
            blocks=ending == ".json",
        )
        document = fragmentation_document(found)
    else:
        events = look.span if look.view == "change" and look.span else (look.event,)
        options = AtOptions(list=look.view == "list", whole_stacks=look.whole)
        if look.view == "tree":
            options = replace(options, tree=True, tree_share=explored.share, inverted=look.inverted)
        found = at_report(
            explored.snap,
            [_when(explored, look, event) for event in events],
            selection,
            options,
        )
        document = at_document(found, all_frames=look.whole)
    _write_report(name, found, document)
    return f"wrote {name}"


def exported_difference(base: Compared, new: Compared, look: Look, name: str) -> str:
    """Like `exported`, but in the format of `memreplay diff`. Raises UsageError and OSError."""
    from memreplay.commands.diff.find import diff_report
    from memreplay.commands.diff.text import diff_document

    ending = _ending(name)
    at = moment_of_both(base, new)
    found = diff_report(
        base.explored.snap,
        new.explored.snap,
        Selection(
            measure=look.measure,
            by=look.by if look.view == "groups" else None,
            top=0,
            device=look.device,
            pool=look.pool,
            stream=look.stream,
            filters=look.filters,
            rules=new.explored.rules,
        ),
        at=at,
        all_frames=look.whole or ending == ".json",
    )
    _write_report(name, found, diff_document(found))
    return f"wrote {name}"


def _ending(name: str) -> str:
    """Return the file name's suffix. Raises UsageError for an unknown one."""
    folder = os.path.dirname(name)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{name}: there is no folder {folder}")
    if os.path.lexists(name):
        raise UsageError(f"{name} already exists; choose another name")
    ending = os.path.splitext(name)[1].lower()
    if ending not in (".json", ".txt", ".md"):
        raise UsageError(f"{name}: end the name with .json, .txt or .md")
    return ending


def _write_report(name: str, found: Record, document: Document) -> None:
    from memreplay.commands.result_json import to_json
    from memreplay.render.markdown import render_markdown
    from memreplay.render.plain import render_plain

    ending = os.path.splitext(name)[1].lower()
    if ending == ".json":
        text = to_json(found)
    else:
        text = render_markdown(document) if ending == ".md" else render_plain(document, width=100)
    _write(name, text.encode())


def _when(explored: Explored, look: Look, event: int) -> When:
    if event == explored.replay(look).start:
        return When("start")
    return When("event", event)


def _write(name: str, data: bytes) -> None:
    """Write atomically, without replacing a file."""
    from memreplay.io.whole import whole_file

    with whole_file(name) as file:
        file.write(data)
        if os.path.lexists(name):
            raise UsageError(f"{name} already exists; choose another name")


def page_written(explored: Explored, file: str) -> str:
    """Write the page of `memreplay view` and try to open it in a browser."""
    from memreplay.commands.view.browser import open_or_explain
    from memreplay.commands.view.find import one_page
    from memreplay.commands.view.names import page_name
    from memreplay.export.page.html import page_html

    name = page_name((file,))
    page, columns = one_page(explored.snap, explored.rules)
    data = b"".join(page_html(page, columns))
    stem, ending = os.path.splitext(name)
    number = 0
    while os.path.lexists(name):
        number += 1
        name = f"{stem}-{number}{ending}"
    _write(name, data)
    words = open_or_explain(name)
    return f"wrote {name}" + (f"; {words}" if words else "")
