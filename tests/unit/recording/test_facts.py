"""What has to be known of a PyTorch, and what a run says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.recording.facts import tracing_slots
from tests.unit.dryrun.fake_torch import HEADER


@pytest.mark.parametrize(
    "header, slots",
    [
        (HEADER, (4, 5, 1)),
        (HEADER.replace("c10::DeviceType device_type,", ""), (4, 5, 0)),
        (HEADER.replace("_deallocation", "_something"), None),
        (HEADER.replace("PyInterpreterVTable", "Another"), None),
        ("", None),
    ],
)
def test_where_the_functions_are(
    tmp_path: Path, header: str, slots: tuple[int, int, int] | None
) -> None:
    path = tmp_path / "include/c10/core/impl/PyInterpreter.h"
    assert tracing_slots(str(tmp_path)) is None
    path.parent.mkdir(parents=True)
    path.write_text(header)
    assert tracing_slots(str(tmp_path)) == slots
