"""Format the notes on which Python objects held the memory."""

from __future__ import annotations

from memreplay.render.document import Block, Heading, Note, Place, Row, Style, Table
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.recorded_holders import HeldBy, RecordedHolders
from memreplay.texts import clean_short

SHOWN = 5
_DIM: Style = "dim"
NAME = 120  # maximum length of a name, in characters
_WORDS = {
    "parameters": "parameters of {name}",
    "gradients": "gradients of {name}",
    "optimizer state": "state of {name}",
}


def holder_blocks(found: RecordedHolders | None, shown: int = SHOWN) -> list[Block]:
    """Return a table of the holders; nothing if they weren't recorded."""
    if found is None or not found.total_bytes:
        return []
    rows = [_row(one, found.total_bytes) for one in found.groups[:shown]]
    rest = len(found.groups[shown:]) + found.other_groups
    if rest:
        left = found.total_bytes - sum(one.bytes for one in found.groups[:shown])
        cells = (size(left), percent(left / found.total_bytes), "", counted(rest, "more holder"))
        rows.append(Row(cells, style="dim"))
    titles = ("bytes", "share", "count", "held by")
    blocks: list[Block] = [
        Heading((f"{size(found.total_bytes)} in use when this was written", "by holder")),
        Table(titles, ("right", "right", "right", "left"), tuple(rows)),
    ]
    if not found.complete:
        blocks.append(Note("the recorder stopped looking after a while: more may be known"))
    return blocks


def _row(one: HeldBy, total: int) -> Row:
    name = clean_short(one.name, NAME)
    details: list[str] = []
    if one.kind == "cycle":
        words = f"reference cycle of {name}" if name else "reference cycle"
        details.append("gc.collect() would free it")
    elif one.kind == "unknown":
        words = f"C++ code, through {name}" if name else "C++ code, or not found"
    else:
        words = _WORDS.get(one.kind, "{name}").format(name=name)
        if one.type_name and one.type_name != "Tensor":
            words += f" ({clean_short(one.type_name, NAME)})"
        if one.function:
            words += f" in {clean_short(one.function, NAME)}()"
    if one.autograd_bytes:
        nodes = ", ".join(clean_short(node, NAME) for node in one.nodes)
        details.append(f"{size(one.autograd_bytes)} saved for a backward pass: {nodes}")
    if one.small_views:
        views = "a small view keeps" if one.small_views == 1 else "small views keep"
        details.append(f"{views} the whole allocation")
    below = tuple((Place(detail), _DIM) for detail in details)
    held = Place(words, one.file, one.line)
    return Row((size(one.bytes), percent(one.bytes / total), count(one.count), held), below)
