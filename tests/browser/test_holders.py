"""The page shows which Python object held the memory: as groups, and in an allocation's details."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import build
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.unit.analysis.groups.test_holding import two_lists

pytestmark = pytest.mark.browser


def test_holders_are_groups_and_details(opened: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "held.pickle"
    path.write_bytes(build.dump(two_lists()))
    page = opened(path)
    page.set(by="holder", tab="holders")
    page.settle()
    assert "losses[…] (list) in train() train.py:12" in page.text()
    page.set(by="stack", tab="allocations", pin=0)
    page.settle()
    words = " ".join(page.text().split())
    assert "held by losses[…] (list) in train() train.py:12" in words


def test_pages_without_notes_have_no_holders(opened: OpenPage) -> None:
    page = opened(EXAMPLES[0])
    assert page.count("option[value=holder]") == 0
