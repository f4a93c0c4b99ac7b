"""--quick leaves out slow tests unless they're requested by name. Also tests tests/examples.py."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tests.conftest import ROOT
from tests.examples import examples
from tests.quick import _is_slow, is_quick, pytest_collection_modifyitems


def config(args: list[str], **options: Any) -> Any:
    asked = {"quick": True, "keyword": "", "markexpr": "", "lf": False} | options
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    return SimpleNamespace(option=SimpleNamespace(**asked), args=args, rootpath=ROOT, hook=hook)


@pytest.mark.parametrize(
    "args, options, quick",
    [
        (["tests"], {}, True),
        (["tests"], {"quick": False}, False),
        (["tests"], {"keyword": "replay"}, False),
        (["tests"], {"markexpr": "slow"}, False),
        (["tests"], {"lf": True}, False),
        (["tests/unit/io"], {}, False),
        (["tests/unit/io/test_ranges.py::test_a_range"], {}, False),
    ],
)
def test_named_tests_run_in_full(args: list[str], options: dict[str, Any], quick: bool) -> None:
    assert is_quick(config(args, **options)) is quick


def item(path: str, mark: str = "", fixture: str = "", **options: Any) -> Any:
    return SimpleNamespace(
        path=ROOT / "tests" / path,
        config=config(["tests"], **options),
        get_closest_marker=lambda name: name == mark,
        fixturenames=[fixture],
    )


SLOW = [
    item("unit/io/test_stores.py", fixture="store"),
    item("unit/io/test_sources.py", fixture="corpus_file"),
    item("unit/io/test_sources.py", mark="slow"),
    item("integration/test_viewers.py", mark="viewers"),
    item("mutants/test_mutations.py"),
    item("helpers/test_quick.py"),
]
QUICK = [item("unit/io/test_sources.py"), item("test_layers.py"), item("property/test_oom.py")]


def test_slow_tests_are_recognised() -> None:
    assert all(_is_slow(one) for one in SLOW)
    assert not any(_is_slow(one) for one in QUICK)


def test_slow_tests_are_left_out() -> None:
    items = [*SLOW, *QUICK]
    pytest_collection_modifyitems(config(["tests"], quick=False), items)
    assert len(items) == len(SLOW) + len(QUICK)
    pytest_collection_modifyitems(config(["tests"]), items)
    assert items == QUICK


@pytest.mark.parametrize("profile, count", [("quick", 30), ("ci", 300), ("thorough", 300)])
def test_number_of_examples_follows_the_profile(profile: str, count: int) -> None:
    try:
        settings.load_profile(profile)
        assert examples(300) == count
        assert examples(1) == 1
    finally:
        settings.load_profile(os.environ.get("MEMREPLAY_PROFILE", "ci"))
