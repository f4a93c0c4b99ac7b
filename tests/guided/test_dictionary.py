"""Tests of the dictionary for libFuzzer."""

from __future__ import annotations

import ast
import pickletools

from tests.fuzz.seeds import generated
from tests.guided.dictionary import NAMES, dictionary, words


def test_dictionary_contains_every_opcode() -> None:
    assert {opcode.code.encode("latin-1") for opcode in pickletools.opcodes} <= set(words())


def test_dictionary_contains_every_key_of_a_snapshot() -> None:
    found: set[str] = set()

    def look(value: object) -> None:
        if isinstance(value, dict):
            found.update(value)
            for one in value.values():
                look(one)
        elif isinstance(value, list | tuple):
            for one in value:
                look(one)

    for snapshot in generated():
        look({key: value for key, value in snapshot.items() if key != "memreplay"})
    assert found <= {*NAMES, "step", "max_split_size", "expandable_segments"}


def test_every_line_of_the_dictionary_is_a_quoted_word() -> None:
    lines = dictionary().splitlines()
    assert [ast.literal_eval(f"b{line}") for line in lines] == words()
