"""tests/example_oom.py produces the example in the repository."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests import build, example_oom
from tests.conftest import ROOT

EXAMPLE = ROOT / "tests/data" / "serving_oom.pkl.gz"


def test_example_matches_its_script(tmp_path: Path) -> None:
    made = tmp_path / "made.pkl.gz"
    example_oom.main(["-o", str(made)])
    plain = gzip.decompress(made.read_bytes())
    assert plain == build.dump(example_oom.snapshot())
    assert plain == gzip.decompress(EXAMPLE.read_bytes())
    assert EXAMPLE.stat().st_size < 50_000
