"""Mutators for a snapshot's data, which is then written in any form, and for JSON tokens."""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
from typing import Any

from tests import build
from tests.fuzz import raw
from tests.fuzz.pickles import KEYS

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+0-9.eE]+|[a-zA-Z]+|\s+|.', re.DOTALL)
DIGITS = tuple(b"%d" % digit for digit in range(10))
ODD_TOKENS = [
    *b"{} [] [[]] {{ ]] } , : null true false NaN Infinity -Infinity - + . -0 00 01 1. .5".split(),
    *b'0.0 1e 1e5 1e999 1e-999 "" " "\\u0000" "\\ud800" "\\udc00\\ud800" "\\ud83d\\ude00"'.split(),
    *(b'"\\x"', b'"\\u12"', b'"\\', b'"\xff"', b'"\x00"', b"\xef\xbb\xbf", b" " * 100),
    *(b"[" * 2000, b'{"a":' * 600, b"1" * 5000),
]
ODD = (None, True, False, 1.5, float("nan"), float("inf"), "", "\0", "\ud800", "x" * 300, b"b", ())
TEXTS = ("", "\0", "\ud800", "é", "x" * 300, "/a b/c.py")
# There are few sizes, so that they coincide: frees hit allocated blocks, and blocks are at events'
# addresses.
SIZES = (0, 1, 512, 4096, 8192, 2**40, 2**40 + 4096, 2**44, 2**61)


def odd_value(rng: random.Random) -> Any:
    """Return a value that a writer would not produce."""
    what = rng.randrange(9)
    if what < 3:
        return rng.choice(raw.EDGES)
    if what < 5:
        return rng.choice(KEYS)
    if what == 5:
        return rng.choice(
            ([], [[]], {}, {"a": []}, [{}], [{"name": "f"}], (0, 0), (1, 2, 3), {1, 2})
        )
    if what == 6:
        return [odd_value(rng) for _ in range(rng.randrange(4))]
    if what == 7:
        return {rng.choice(KEYS): odd_value(rng) for _ in range(rng.randrange(4))}
    return rng.choice(ODD)


def like(rng: random.Random, value: Any) -> Any:
    """Return another value of the same type, if possible."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        dice = rng.random()
        return (
            value + rng.choice((-1, 1, 512))
            if dice < 0.5
            else rng.choice(SIZES)
            if dice < 0.8
            else rng.choice(raw.EDGES)
        )
    if isinstance(value, str):
        return rng.choice(KEYS) if rng.random() < 0.8 else rng.choice(TEXTS)
    if isinstance(value, tuple):
        return tuple(like(rng, item) for item in value)
    if isinstance(value, list):
        return value[: rng.randrange(len(value) + 1)]
    return odd_value(rng)


GONE: Any = object()
Path = tuple[Any, ...]


def with_other(value: Any, at: Path, new: Any) -> Any:
    """Return the data with another value at a path of keys and indices; GONE removes it."""
    if not at:
        return new
    keyed = value.items() if isinstance(value, dict) else enumerate(value)
    items = [
        (key, with_other(one, at[1:], new) if key == at[0] else one)
        for key, one in keyed
        if len(at) > 1 or key != at[0] or new is not GONE
    ]
    return dict(items) if isinstance(value, dict) else [one for _, one in items]


def any_path(rng: random.Random, value: Any) -> Path:
    """Return the path to a random value, choosing one item per level."""
    at: Path = ()
    while isinstance(value, (dict, list, tuple)) and value and (not at or rng.random() < 0.9):
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = value[key]
        at = (*at, key)
    return at


def replaced(rng: random.Random, plain: bytes) -> bytes:
    """Return a snapshot in which some values are None, have another type, or are missing. Writers
    must handle it.
    """
    snapshot = pickle.loads(plain)  # the seeds were written by this project, with plain data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        dice = rng.random()
        new = None if dice < 0.5 else GONE if dice < 0.65 else odd_value(rng)
        at = any_path(rng, snapshot)
        if at:
            snapshot = with_other(snapshot, at, new)
    return rewritten(rng, snapshot)


def containers(value: Any) -> list[Any]:
    """Return every dict and list in the data once."""
    found: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        if isinstance(one, dict):
            found[id(one)] = one
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            if isinstance(one, list):
                found[id(one)] = one
            waiting.extend(one)
    return list(found.values())


def changed(rng: random.Random, plain: bytes) -> bytes:
    """Replace, remove, add, move or share some parts of a snapshot."""
    snapshot = pickle.loads(plain)  # the seeds were written by this project, with plain data
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        change(rng, containers(snapshot))
    return rewritten(rng, snapshot)


def change(rng: random.Random, found: list[Any]) -> None:
    if not found:
        return
    one = rng.choice(found)
    new = rng.choice(found) if rng.random() < 0.2 else odd_value(rng)
    what = rng.randrange(5)
    if isinstance(one, dict):
        key = rng.choice(list(one)) if one and what < 3 else rng.choice(KEYS)
        if what == 0:
            one.pop(key, None)
        elif what == 4 and rng.random() < 0.2:
            one[rng.choice((0, None, 1.5, (1, 2), b"k", "k" * 70_000))] = new
        elif key in one and rng.random() < 0.8:
            one[key] = like(rng, one[key])
        else:
            one[key] = new
        return
    at = rng.randrange(len(one) + 1)
    if what == 0:
        del one[at : at + rng.choice((1, 1, 3, 100))]
    elif what == 1 and one:
        again = one[: rng.choice((1, 3, 50))] * rng.choice((1, 1, 2, 40))
        # Copy it, because the reader rejects the same object in two places, but not equal objects.
        one[at:at] = again if rng.random() < 0.2 else [copy.copy(item) for item in again]
    elif what == 2:
        one[at : at + 1] = [new if rng.random() < 0.5 or at == len(one) else like(rng, one[at])]
    elif what == 3 and one:
        one.insert(at, copy.copy(one[-1]))
    else:
        rng.shuffle(one)


def rewritten(rng: random.Random, snapshot: Any) -> bytes:
    """Write the snapshot with one of the writers, or with pickle if that fails."""
    what = rng.random()
    try:
        if what < 0.2:
            return json.dumps(snapshot, ensure_ascii=rng.random() < 0.8).encode()
        if what < 0.3:
            return build.dump_cpp(snapshot, memoise_all=rng.random() < 0.3)
        if what < 0.33:
            return build.reframe(pickle.dumps(snapshot, 4), rng.choice((1, 5, 50)))
        if what < 0.36:
            return build.dump_unshared(snapshot)
        if what < 0.39:
            return build.dump_optimized(snapshot)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        pass  # a set, a cycle, a lone surrogate, or more than 64 bits
    return pickle.dumps(snapshot, rng.choice((0, 1, 2, 3, 4, 4, 5)))


def tokens_changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Remove, duplicate, move or replace some JSON tokens, or take them from the other input."""
    tokens = TOKEN.findall(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            break
        at = rng.randrange(len(tokens))
        stop = at + (1 if rng.random() < 0.7 else rng.randrange(1, 30))
        what = rng.randrange(7)
        if what == 0:
            del tokens[at:stop]
        elif what == 1:
            tokens[at:at] = tokens[at:stop] * (1 if rng.random() < 0.9 else 100)
        elif what == 2:
            tokens[at] = rng.choice(ODD_TOKENS)
        elif what == 3:
            tokens.insert(at, rng.choice(ODD_TOKENS))
        elif what in (4, 5):
            numbers = [i for i in range(at, min(at + 50, len(tokens))) if tokens[i][:1] in DIGITS]
            at = numbers[0] if numbers and what == 4 else at
            quoted = tokens[at][:1] == b'"'
            new = rng.choice(KEYS).encode() if quoted else b"%d" % rng.choice(raw.EDGES)
            tokens[at] = b'"%s"' % new if quoted else new
        else:
            found = TOKEN.findall(other)
            first = rng.randrange(len(found)) if found else 0
            tokens[at : at + rng.randrange(3)] = found[first : first + rng.randrange(1, 30)]
    return b"".join(tokens)
