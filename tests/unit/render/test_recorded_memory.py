"""The tables and lines on the memory of cards and of the process."""

from __future__ import annotations

from typing import Any

from msgspec import convert
from msgspec.structs import replace

from memreplay.render.plain import render_plain
from memreplay.render.recorded_memory import (
    card_blocks,
    card_line,
    card_notes,
    host_line,
    sample_line,
)
from memreplay.snapshot.recorded_memory import CardProcess, CardSamples, CardUse, HostUse
from tests.unit.snapshot.test_recorded_memory import CARD, GIB, HOST, NOW, noted

USE = convert(CARD, CardSamples).use()


def text(use: CardUse, width: int = 100) -> list[str]:
    return render_plain(tuple(card_blocks((use,))), width=width).splitlines()


def others(*sizes: int | None) -> Any:
    return tuple(CardProcess(i, f"p{i}", n, is_recorded=False) for i, n in enumerate(sizes))


def test_rows_add_up_to_the_card() -> None:
    assert text(replace(USE, outside_peak_bytes=USE.outside_bytes)) == [
        "device 0: 45.0 GiB of 80.0 GiB in use on the card when this was written",
        "",
        "   bytes  share  held by",
        "33.0 GiB  41.2%  another process: pid 4711 python",
        "10.0 GiB  12.5%  PyTorch's allocator in this process (reserved)",
        " 2.0 GiB   2.5%  this process, outside PyTorch's allocator: context, kernels, libraries",
        "35.0 GiB  43.8%  free",
    ]


def test_moment_and_place_are_named() -> None:
    use = convert(CARD, CardSamples).use(NOW + 1_000_000)
    assert "when the request failed" in text(use)[0]
    assert "in use on this part of the card (MIG) when" in text(replace(USE, is_part=True))[0]


def test_many_processes_are_summed_up() -> None:
    use = replace(USE, processes=others(*[4 * GIB] * 8, None), other_bytes=32 * GIB)
    lines = text(use)
    assert sum("another process: pid" in line for line in lines) == 5
    assert "12.0 GiB  15.0%  3 other processes" in lines


def test_older_sample_is_not_exceeded_by_a_newer_list() -> None:
    use = replace(USE, processes=others(9 * GIB, 9 * GIB), other_bytes=10 * GIB)
    lines = "\n".join(text(use))
    assert "9.0 GiB  11.2%  another process: pid 0 p0" in lines
    assert "1.0 GiB   1.2%  another process: pid 1 p1" in lines
    assert "other processes" not in lines
    use = replace(USE, processes=(), other_bytes=10 * GIB)
    assert "10.0 GiB  12.5%  other processes" in "\n".join(text(use))


def test_missing_lists_are_explained() -> None:
    unlisted = replace(USE, processes=(), processes_missing="install it", other_bytes=None)
    assert card_notes(unlisted)[-1] == "other processes aren't listed: install it"
    assert any(line.endswith("libraries, other processes") for line in text(unlisted))
    found = (*others(33 * GIB, None),)
    container = replace(USE, processes=found, other_bytes=None)
    assert card_notes(container)[-1].endswith("it lists pid 0 p0 (33.0 GiB), pid 1 p1")
    assert card_notes(replace(container, processes=()))[-1].endswith("it lists none")


def test_peak_outside_is_mentioned_only_if_it_is_higher() -> None:
    (note,) = card_notes(USE)
    assert note == "up to 7.0 GiB was outside PyTorch's allocator during the recording"
    assert card_notes(replace(USE, outside_peak_bytes=USE.outside_bytes + (1 << 20))) == []


def test_control_characters_are_not_printed() -> None:
    bad = CardProcess(1, "a\x1b[31m\n\u202eb" * 100, GIB, is_recorded=False)
    use = replace(USE, processes=(bad,), processes_missing="no\x07\nlibrary")
    for lines in (text(use), [card_line(use)]):
        assert not any(char in line for line in lines for char in "\x1b\x07\u202e")
    assert max(map(len, text(use))) <= 100


def test_line_of_a_card() -> None:
    assert card_line(USE) == (
        "45.0 GiB of 80.0 GiB in use at the end: 10.0 GiB by PyTorch's allocator, 33.0 GiB by 1"
        " other process, 2.0 GiB by the CUDA context and libraries"
    )
    assert "2 other processes" in card_line(replace(USE, processes=others(1, 2)))
    assert card_line(replace(USE, other_bytes=None)).endswith(
        "PyTorch's allocator, 2.0 GiB by the CUDA context, libraries and other processes"
    )


def test_line_of_a_moment() -> None:
    card = convert(CARD, CardSamples)
    line = "card: 7.0 GiB outside PyTorch, 33.0 GiB in other processes, 30.0 GiB free"
    earlier = f"{line} (0.400 s earlier)"
    found = [sample_line(card, NOW + 1_400_000, n) for n in (999, 91, 90, len(line), len(line) - 1)]
    assert found == [earlier, earlier, line, line, line[:-2] + "…"]
    assert sample_line(card, NOW - 250, 99) == (
        "card: 4.0 GiB outside PyTorch, including other processes, 70.0 GiB free (250 us later)"
    )
    assert sample_line(card, NOW, 99).endswith("70.0 GiB free")


def test_line_of_the_host() -> None:
    from memreplay.snapshot.recorded_memory import host_use

    use = host_use(noted(host=HOST))
    assert use is not None
    assert host_line(use) == (
        "this process uses 3.0 GiB of RAM (at most 4.0 GiB), 0 B of it shared with other processes"
        " (at most 2.0 GiB); 2.0 GiB pinned for copies to the GPU (at most 5.0 GiB), 1.0 GiB of it"
        " in use"
    )
    assert host_line(replace(use, pinned_events=1234)) == (
        f"{host_line(use)}; 1,234 events of pinned memory (export --host)"
    )
    unknown = replace(use, pinned_active_bytes=None)
    assert host_line(unknown).endswith("2.0 GiB pinned for copies to the GPU (at most 5.0 GiB)")
    nothing = HostUse(
        time_us=0,
        resident_bytes=None,
        resident_peak_bytes=None,
        shared_bytes=None,
        shared_peak_bytes=None,
        pinned_active_bytes=None,
        pinned_bytes=None,
        pinned_peak_bytes=None,
    )
    assert host_line(nothing) == host_line(None) == ""
    assert host_line(replace(nothing, resident_peak_bytes=GIB)) == (
        "this process used at most 1.0 GiB of RAM"
    )
    same = replace(nothing, resident_bytes=GIB, resident_peak_bytes=GIB)
    assert host_line(same) == "this process uses 1.0 GiB of RAM"
