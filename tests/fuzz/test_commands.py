"""Tests of commands.py: no command is left out by accident."""

from __future__ import annotations

import re
from pathlib import Path

from memreplay.commands.shared.listed import COMMANDS

HERE = Path(__file__).parent
# What is asked by another way than the command's own module, or why it is not asked.
OTHERWISE = {
    "completion": "reads no snapshot",
    "help": "reads no snapshot",
    "record": "runs a program",
    "dryrun": "runs a program",
    "view": "writers.page_of",
    "export": "commands.exports; writers.dataset_of, flat_table, usage_table,"
    " other_form_of, lines_of, part_of",
    "sql": "DuckDB's answers from the tables of writers.py",
    "watch": "says of each new file what peak says; tests/faults has its folders",
    "fleet": "a row a file, of what peak, leaks and oom say; tests/integration/test_fleet.py",
    "mcp": "answers with these reports; tests/property/test_texts_elsewhere.py",
}


def test_every_command_is_asked_or_has_a_reason() -> None:
    source = "".join(
        (HERE / name).read_text(encoding="utf-8")
        for name in ("check.py", "commands.py", "writers.py")
    )
    rooms = re.findall(r"from memreplay\.(?:commands\.(\w+)|(gating|explore))", source)
    asked = {{"gating": "gate"}.get(one, one) for pair in rooms for one in pair} & set(COMMANDS)
    assert asked | OTHERWISE.keys() == set(COMMANDS)
    assert not asked & OTHERWISE.keys()
