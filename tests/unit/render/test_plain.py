"""Tests of render/plain.py."""

from __future__ import annotations

import subprocess
import sys

from memreplay.render.document import Heading, Pairs, Row, Table
from memreplay.render.plain import render_plain


def test_output_is_plain_text() -> None:
    table = Table(("state", "n"), ("left", "left"), (Row(("x", "")),))
    text = render_plain((Heading(("hostile \x1b[31m",)), table), width=80)
    assert text == "hostile \\x1b[31m\n\nstate  n\nx"


def test_lines_have_no_trailing_spaces() -> None:
    assert render_plain((Pairs((("name", ""), ("longer", "x"))),), width=80) == "name\nlonger  x"


def test_rich_is_not_imported() -> None:
    code = "import sys, memreplay.render.plain; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
