"""Tests of render/simulations.py."""

from __future__ import annotations

import pytest

from memreplay.render.simulations import SETTINGS_WIDTH, settings_lines, settings_text


@pytest.mark.parametrize(
    "settings, shown",
    [
        ("", ["PyTorch's defaults"]),
        ("expandable_segments:True", ["expandable_segments:True"]),
        (
            "expandable_segments:True,roundup_power2_divisions:8",
            ["expandable_segments:True,roundup_power2_divisions:8"],
        ),
        (
            "expandable_segments:True,roundup_power2_divisions:16",
            ["expandable_segments:True,", "roundup_power2_divisions:16"],
        ),
        (
            "roundup_power2_divisions:[1:2,2:0,4:8,8:1,16:16,32:1,64:2,>:4],max_split_size_mb:64",
            [
                "roundup_power2_divisions:[1:2,2:0,4:8,8:1,16:16,",
                "32:1,64:2,>:4],max_split_size_mb:64",
            ],
        ),
    ],
)
def test_settings_wrap_after_commas(settings: str, shown: list[str]) -> None:
    first, below = settings_lines(settings)
    lines = [first, *(place.function for place, _ in below)]
    assert lines == shown
    assert "".join(lines) == settings_text(settings)
    assert all(len(line) <= SETTINGS_WIDTH for line in lines)
