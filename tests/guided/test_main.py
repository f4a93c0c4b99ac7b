"""libFuzzer's output is turned into a table and an exit code. ci/guided runs libFuzzer itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guided import __main__ as guided
from tests.guided.__main__ import Fuzzer, Tally

SAID = (
    "INFO: Loaded 1 modules",
    "#2\tINITED cov: 100 ft: 340 corp: 1/1b exec/s: 0 rss: 113Mb",
    "judged: {'went on': 60, 'refused': 40}",
    "#9\tNEW    cov: 339 ft: 340 corp: 1/1b exec/s: 0 rss: 113Mb",
    "stat::number_of_executed_units: 110",
)


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fuzzer:
    monkeypatch.setattr(guided, "CRASHES", tmp_path / "crashes")
    return Fuzzer(tmp_path, "")


def saying(monkeypatch: pytest.MonkeyPatch, *rounds: tuple[str, ...]) -> None:
    left = list(rounds)
    clock = iter(range(0, 10_000, 10))

    def lines(_self: Fuzzer, _target: str, *_arguments: str) -> Iterator[str]:
        yield from left.pop(0)

    monkeypatch.setattr(Fuzzer, "lines", lines)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))


def test_counts_are_read_from_libfuzzers_output(
    fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saying(monkeypatch, (*SAID, "exit 0"))
    tally = fuzzer.look("read", tmp_path, 20, tmp_path / "words")
    assert (tally.inputs, tally.judged, tally.refused, tally.edges) == (110, 100, 40, 339)
    assert tally.found == []
    assert tally.row().split() == ["read", "110", "10", "11", "339", "1", "0", "60%"]


def test_search_continues_after_a_finding(
    fuzzer: Fuzzer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = (*SAID, "==1==ERROR: AddressSanitizer: heap-buffer-overflow", "exit -6")
    saying(monkeypatch, broken, (*SAID, "exit 0"))
    tally = fuzzer.look("read", tmp_path, 50, tmp_path / "words")
    assert tally.inputs == 220
    assert len(tally.found) == 1
    assert "heap-buffer-overflow" in capsys.readouterr().out


def test_failed_minimising_is_an_error(
    fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saying(monkeypatch, ("exit 1",))
    with pytest.raises(SystemExit, match="read: cannot be minimised: exit 1"):
        fuzzer.minimised("read", tmp_path)


def test_target_without_runs_has_a_row_in_the_table() -> None:
    assert Tally("read").row().split()[0] == "read"
