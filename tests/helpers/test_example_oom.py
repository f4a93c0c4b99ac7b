"""tests/example_oom.py: the example in the repository is what it makes."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests import build, example_oom
from tests.conftest import ROOT

EXAMPLE = ROOT / "tests/data" / "serving_oom.pkl.gz"


def test_the_example_is_made_by_it(tmp_path: Path) -> None:
    made = tmp_path / "made.pkl.gz"
    example_oom.main(["-o", str(made)])
    plain = gzip.decompress(made.read_bytes())
    assert plain == build.dump(example_oom.snapshot())
    assert plain == gzip.decompress(EXAMPLE.read_bytes())
    assert EXAMPLE.stat().st_size < 50_000
