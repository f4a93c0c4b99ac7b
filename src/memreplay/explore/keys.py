"""The explorer's keys and what they do."""

from __future__ import annotations

import re
from typing import NamedTuple


class Key(NamedTuple):
    """Keys with the same action."""

    keys: str  # Textual's names, separated by commas
    action: str
    words: str
    group: str
    footer: str = ""  # label in the footer, for the keys that are used most
    weight: int = 0  # keys with more come first in the footer


KEYS: tuple[Key, ...] = (
    Key("left,h", "column(-1)", "a column earlier", "Time", "time", 3),
    Key("right,l", "column(1)", "a column later", "Time"),
    Key("shift+left,comma", "event(-1)", "one event back", "Time"),
    Key("shift+right,full_stop", "event(1)", "one event forward", "Time"),
    Key("H,ctrl+left", "pan(-1)", "half a window back", "Time"),
    Key("L,ctrl+right", "pan(1)", "half a window forward", "Time"),
    Key("home,0", "edge(-1)", "the start", "Time"),
    Key("end,dollar_sign", "edge(1)", "the end", "Time"),
    Key("p", "mark('peaks',1)", "the next peak", "Time", "peak"),
    Key("P", "mark('peaks',-1)", "the previous peak", "Time"),
    Key("s", "mark('steps',1)", "the end of the next step", "Time", "step"),
    Key("S", "mark('steps',-1)", "the end of the previous step", "Time"),
    Key("o", "mark('ooms',1)", "the next failed request", "Time"),
    Key("O", "mark('ooms',-1)", "the previous failed request", "Time"),
    Key("a", "mark('annotations',1)", "the next annotation", "Time"),
    Key("A", "mark('annotations',-1)", "the previous annotation", "Time"),
    Key("colon", "go", "go to a moment: 1200, 1.5s, peak:2, end, an annotation", "Time", "go to"),
    Key("plus,equals_sign", "zoom(0.5)", "zoom in", "Time", "zoom"),
    Key("minus", "zoom(2)", "zoom out", "Time"),
    Key("right_parenthesis", "height(0.5)", "zoom in vertically", "Time"),
    Key("left_parenthesis", "height(2)", "zoom out vertically", "Time"),
    Key("K,ctrl+up", "lift(1)", "half a window up", "Time"),
    Key("J,ctrl+down", "lift(-1)", "half a window down", "Time"),
    Key("z", "fit", "show the whole recording, or the range", "Time"),
    Key("x", "axis", "switch between events and time", "Time"),
    Key("left_square_bracket", "bound('begin')", "begin a range here", "Time"),
    Key(
        "right_square_bracket",
        "bound('end')",
        "end the range here, and show its changes",
        "Time",
        "range",
    ),
    Key("m", "measure(1)", "the next measure", "View", "measure"),
    Key("M", "measure(-1)", "the previous measure", "View"),
    Key("d", "device(1)", "the next device", "View"),
    Key("D", "device(-1)", "the previous device", "View"),
    Key("tab,v", "view(1)", "the next view", "View", "view", 1),
    Key("shift+tab,V", "view(-1)", "the previous view", "View"),
    Key("1", "views('tree')", "the call tree", "View"),
    Key("2", "views('groups')", "groups", "View"),
    Key("3", "views('list')", "allocations one by one", "View"),
    Key("4", "views('segments')", "segments and their blocks", "View"),
    Key("5", "views('change')", "changes in the range", "View"),
    Key("b", "way(1)", "group by the next key", "View", "group by"),
    Key("B", "way(-1)", "group by the previous key", "View"),
    Key("t", "turn", "turn the tree: outermost call or allocating function first", "View"),
    Key("i", "internal", "show or hide frames outside your code", "View"),
    Key("less_than_sign", "finer(0.1)", "show smaller calls", "View"),
    Key("greater_than_sign", "finer(10)", "hide small calls", "View"),
    Key("f", "filter", "filter allocations, as memreplay peak does", "View", "filter"),
    Key("backslash,ctrl+w", "other", "switch to the other snapshot of two", "View"),
    Key("u", "sync", "sync two cursors by step, time or event", "View"),
    Key("up,k", "row(-1)", "the row above", "Rows", "rows", 3),
    Key("down,j", "row(1)", "the row below", "Rows"),
    Key("pageup,ctrl+b", "page(-1)", "a page up", "Rows"),
    Key("pagedown,ctrl+f", "page(1)", "a page down", "Rows"),
    Key("g", "last_row(-1)", "the first row", "Rows"),
    Key("G", "last_row(1)", "the last row", "Rows"),
    Key(
        "enter,space",
        "open_row",
        "open or close a call or a segment; show more",
        "Rows",
        "open",
        2,
    ),
    Key("asterisk", "all(True)", "open all calls", "Rows"),
    Key("underscore", "all(False)", "close all calls", "Rows"),
    Key("E", "subtree(True)", "open this call and all below it", "Rows"),
    Key("C", "subtree(False)", "close this call and all below it", "Rows"),
    Key("right_curly_bracket", "sibling(1)", "the next call by the same caller", "Rows"),
    Key("left_curly_bracket", "sibling(-1)", "the previous call by the same caller", "Rows"),
    Key("backspace", "caller", "the caller of this call", "Rows"),
    Key("c", "focus_call", "show only this call; again below it", "Rows"),
    Key("escape", "undo_last", "back to the calls shown before; forget the range", "Rows"),
    Key("slash", "search", "search rows as you type, with a regular expression", "Rows", "search"),
    Key("n", "again(1)", "the next match", "Rows"),
    Key("N", "again(-1)", "the previous match", "Rows"),
    Key("r", "details", "show or hide the details of the row", "Rows", "details"),
    Key("shift+up,ctrl+u", "details_by(-1)", "scroll the details up", "Rows"),
    Key("shift+down,ctrl+d", "details_by(1)", "scroll the details down", "Rows"),
    Key("y", "copy", "copy the matching command line", "Output", "copy"),
    Key("e", "export", "write the answer to a file", "Output"),
    Key("w", "page_of_view", "write the page of memreplay view", "Output"),
    Key("question_mark,f1", "keys", "all keys", "Output", "keys"),
    Key("ctrl+z", "suspend_process", "suspend; fg in the shell returns", "Output"),
    Key("q,ctrl+c,ctrl+q", "quit", "quit", "Output", "quit"),
)

RANK_KEYS: tuple[Key, ...] = (
    Key("up,k", "row(-1)", "the rank above", "Ranks", "ranks", 2),
    Key("down,j", "row(1)", "the rank below", "Ranks"),
    Key("pageup,ctrl+b", "page(-1)", "a page up", "Ranks"),
    Key("pagedown,ctrl+f", "page(1)", "a page down", "Ranks"),
    Key("g,home", "edge(-1)", "the first rank", "Ranks"),
    Key("G,end", "edge(1)", "the last rank", "Ranks"),
    Key("o", "notable(1)", "the next outlier or failed rank", "Ranks", "outlier"),
    Key("O", "notable(-1)", "the previous outlier or failed rank", "Ranks"),
    Key("s", "sort", "sort by peak, or by rank", "Ranks", "sort"),
    Key("enter,space", "choose", "explore this rank", "Ranks", "explore", 1),
    Key("question_mark,f1", "keys", "all keys", "Ranks", "keys"),
    Key("ctrl+z", "suspend_process", "suspend; fg in the shell returns", "Ranks"),
    Key("q,ctrl+c,ctrl+q", "quit", "quit", "Ranks", "quit"),
)
"""The keys of the list of ranks."""

_NAMES = {
    "comma": ",",
    "full_stop": ".",
    "dollar_sign": "$",
    "colon": ":",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "asterisk": "*",
    "underscore": "_",
    "slash": "/",
    "question_mark": "?",
    "pageup": "page up",
    "pagedown": "page down",
    "backslash": "\\",
    "escape": "esc",
}


# Keys shown with their opposites in the footer.
_PAIRS = {"left": ("←→", "left/right"), "up": ("↑↓", "up/down"), "plus": ("+-", "+-")}


def spelled(keys: str) -> str:
    """Return the keys as printed: `left or h`."""
    return " or ".join(_NAMES.get(one, one) for one in keys.split(","))


def short(keys: str) -> str:
    """Return the keys for a narrow column: `pagedown ^F`."""
    named = " ".join(_NAMES.get(one, one) for one in keys.split(","))
    return re.sub(r"ctrl\+(\w+)", lambda found: "^" + _capital(found[1]), named)


def _capital(name: str) -> str:
    """Return a letter's capital; other keys' names stay the same."""
    return name.upper() if len(name) == 1 else name


def label(key: Key, *, plain: bool) -> str:
    """Return the first key, with its opposite if the footer shows both."""
    first = key.keys.split(",", 1)[0]
    return _PAIRS[first][plain] if first in _PAIRS else spelled(first)
