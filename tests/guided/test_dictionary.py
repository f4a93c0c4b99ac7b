"""The words for libFuzzer."""

from __future__ import annotations

import ast
import pickletools

from tests.fuzz.seeds import generated
from tests.guided.dictionary import NAMES, dictionary, words


def test_all_opcodes_are_words() -> None:
    assert {opcode.code.encode("latin-1") for opcode in pickletools.opcodes} <= set(words())


def test_all_keys_of_a_snapshot_are_names() -> None:
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


def test_each_line_is_a_word_in_quotes() -> None:
    lines = dictionary().splitlines()
    assert [ast.literal_eval(f"b{line}") for line in lines] == words()
