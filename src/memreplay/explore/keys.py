"""The keys of the explorer: what each does, in words."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """Keys that do the same."""

    keys: str  # as Textual names them, joined by commas
    action: str
    words: str
    group: str
    footer: str = ""  # in a word, where it is one of the most used


KEYS: tuple[Key, ...] = (
    Key("left,h", "column(-1)", "a column earlier", "Time", "time"),
    Key("right,l", "column(1)", "a column later", "Time"),
    Key("comma,shift+left", "event(-1)", "one event earlier", "Time"),
    Key("full_stop,shift+right", "event(1)", "one event later", "Time"),
    Key("H,ctrl+left", "pan(-1)", "half a window earlier", "Time"),
    Key("L,ctrl+right", "pan(1)", "half a window later", "Time"),
    Key("home,0", "edge(-1)", "the start", "Time"),
    Key("end,dollar_sign", "edge(1)", "the end", "Time"),
    Key("p", "mark('peaks',1)", "the next peak", "Time", "peak"),
    Key("P", "mark('peaks',-1)", "the peak before", "Time"),
    Key("s", "mark('steps',1)", "the end of the next step", "Time", "step"),
    Key("S", "mark('steps',-1)", "the end of the step before", "Time"),
    Key("o", "mark('ooms',1)", "the next failed request", "Time"),
    Key("O", "mark('ooms',-1)", "the failed request before", "Time"),
    Key("a", "mark('annotations',1)", "the next annotation", "Time"),
    Key("A", "mark('annotations',-1)", "the annotation before", "Time"),
    Key("colon", "go", "go to a moment: 1200, 1.5s, peak:2, end, an annotation", "Time", "go to"),
    Key("plus,equals_sign", "zoom(0.5)", "zoom in", "Time", "zoom"),
    Key("minus", "zoom(2)", "zoom out", "Time"),
    Key("z", "fit", "show the whole recording, or the range", "Time"),
    Key("x", "axis", "by event, or by time", "Time"),
    Key("left_square_bracket", "bound('begin')", "begin a range here", "Time"),
    Key("right_square_bracket", "bound('end')", "end it here: what came and went", "Time", "range"),
    Key("m", "measure(1)", "the next measure", "What", "measure"),
    Key("M", "measure(-1)", "the measure before", "What"),
    Key("d", "device(1)", "the next device", "What"),
    Key("D", "device(-1)", "the device before", "What"),
    Key("tab,v", "view(1)", "the next view", "What", "view"),
    Key("shift+tab,V", "view(-1)", "the view before", "What"),
    Key("1", "views('tree')", "the tree of calls", "What"),
    Key("2", "views('groups')", "groups", "What"),
    Key("3", "views('list')", "allocations one by one", "What"),
    Key("4", "views('segments')", "segments and their blocks", "What"),
    Key("5", "views('change')", "what the range changed", "What"),
    Key("b", "way(1)", "group by the next way", "What", "group by"),
    Key("B", "way(-1)", "group by the way before", "What"),
    Key("t", "turn", "turn the tree: from the outermost call, or from what allocates", "What"),
    Key("i", "internal", "show or hide frames that are not yours", "What"),
    Key("less_than_sign", "finer(0.1)", "show smaller calls", "What"),
    Key("greater_than_sign", "finer(10)", "hide small calls", "What"),
    Key("f", "filter", "filter allocations, as memreplay peak does", "What", "filter"),
    Key("backslash,ctrl+w", "other", "the other snapshot, where two are compared", "What"),
    Key("u", "sync", "two cursors in sync by step, by time, or by event", "What"),
    Key("up,k", "row(-1)", "the row above", "Rows", "rows"),
    Key("down,j", "row(1)", "the row below", "Rows"),
    Key("pageup,ctrl+b", "page(-1)", "a page up", "Rows"),
    Key("pagedown,ctrl+f", "page(1)", "a page down", "Rows"),
    Key("g", "last_row(-1)", "the first row", "Rows"),
    Key("G", "last_row(1)", "the last row", "Rows"),
    Key("enter,space", "open_row", "open or close a call or a segment; show more", "Rows", "open"),
    Key("asterisk", "all(True)", "open all calls", "Rows"),
    Key("underscore", "all(False)", "close all calls", "Rows"),
    Key("c", "focus_call", "show this call alone", "Rows"),
    Key("escape", "undo_last", "show all calls again; forget the range", "Rows"),
    Key("slash", "search", "search rows with a regular expression", "Rows", "search"),
    Key("n", "again(1)", "the next match", "Rows"),
    Key("N", "again(-1)", "the match before", "Rows"),
    Key("r", "details", "show or hide the details of the row", "Rows", "details"),
    Key("y", "copy", "copy the command line that says the same", "Out", "copy"),
    Key("e", "export", "write what is shown to a file", "Out"),
    Key("w", "page_of_view", "make the page of memreplay view", "Out"),
    Key("question_mark,f1", "keys", "all keys", "Out", "keys"),
    Key("q,ctrl+c,ctrl+q", "quit", "quit", "Out", "quit"),
)

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
    "left": "left",
}


def spelled(keys: str) -> str:
    """`h, left`: keys as they are printed."""
    return ", ".join(_NAMES.get(one, one) for one in keys.split(","))


def first_key(keys: str) -> str:
    """The first of them."""
    return spelled(keys.split(",", 1)[0])
