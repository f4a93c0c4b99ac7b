"""One input: a graph, valid or not, and its pickle."""

from __future__ import annotations

from typing import NamedTuple

from tests.graphs.choosing import Chooser
from tests.graphs.nodes import Code, Node, reaches
from tests.graphs.shaping import Shaper
from tests.graphs.writing import Style, Writer

KINDS = ("plain", "other opcodes", "anything", "odd values", "odd values, plain", "code")
MIX = (*KINDS[:2], *KINDS[:2], *KINDS, *KINDS[:5])
MEMO = ("all", "all", "shared", "few")


class Input(NamedTuple):
    """A pickle, and its expected outcome."""

    kind: str
    data: bytes
    sound: bool  # a reader must accept it
    called: bool  # it imports or calls something, so a reader must reject it


def make(choose: Chooser, kinds: tuple[str, ...] = MIX) -> Input:
    """Return an input of this kind: a valid graph in plain or unusual opcodes, or a graph with odd
    values.
    """
    kind = choose.pick(kinds)
    wrong = 0 if kind in ("plain", "other opcodes", "code") else choose.pick((0, 600, 200, 60))
    if kind.startswith("odd values") and not wrong:
        wrong = 300
    plain = kind in ("plain", "odd values, plain")
    alike = choose.pick((0, 100)) if wrong else 0
    shaper = Shaper(choose, wrong=wrong, called=kind == "code", alike=alike)
    root = shaper.whole()
    style = Style(
        protocol=choose.pick((4, 2, 5, 3, 0, 1)),
        memo=choose.pick(MEMO),
        odd=0 if plain else choose.pick((40, 10, 200)),
        wild=kind in ("anything", "odd values", "code"),
        frames=0 if plain and choose.chance(2) else choose.below(2 if plain else 3),
    )
    data = Writer(choose, style).whole(root)
    return Input(kind, data, kind in KINDS[:2], has_code(root) if kind == "code" else False)


def has_code(root: Node) -> bool:
    """Return whether a graph contains an import or a call."""
    return any(isinstance(one, Code) for one in (root, *reaches(root)))
