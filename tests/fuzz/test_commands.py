"""No command is left out of the fuzzer by accident."""

from __future__ import annotations

import re
from pathlib import Path

from memreplay.commands.shared.listed import COMMANDS

HERE = Path(__file__).parent
# Commands that aren't fuzzed directly: where they're tested instead, or why they aren't.
OTHERWISE = {
    "completion": "reads no snapshot",
    "help": "reads no snapshot",
    "record": "runs a program",
    "dryrun": "runs a program",
    "view": "writers.page_of",
    "export": "commands.exports; writers.dataset_of, flat_table, usage_table,"
    " other_form_of, lines_of, part_of",
    "sql": "DuckDB's answers from the tables of writers.py",
    "watch": "reports what peak reports for each new file; tests/faults tests folders",
    "fleet": "one row per file, from peak, leaks and oom; tests/integration/test_fleet.py",
    "mcp": "answers with these reports; tests/property/test_texts_elsewhere.py",
}


def test_every_command_is_fuzzed_or_listed_with_a_reason() -> None:
    source = "".join(
        (HERE / name).read_text(encoding="utf-8")
        for name in ("check.py", "commands.py", "writers.py")
    )
    rooms = re.findall(r"from memreplay\.(?:commands\.(\w+)|(gating|explore))", source)
    asked = {{"gating": "gate"}.get(one, one) for pair in rooms for one in pair} & set(COMMANDS)
    assert asked | OTHERWISE.keys() == set(COMMANDS)
    assert not asked & OTHERWISE.keys()
