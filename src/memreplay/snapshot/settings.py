"""What a snapshot's allocator settings say of block sizes (docs/allocator.md)."""

from __future__ import annotations

from msgspec import Struct

# Powers of two from 1 MiB to 32 GiB: the sizes that roundup_power2_divisions tells apart.
STEPS = 16
_LARGEST = 2**62
_DIGITS = len(str(1 << STEPS))  # of a size in MiB; Python makes no number of thousands


class BlockRules(Struct, frozen=True):
    """The settings that sizes depend on, as the engine takes them.

    `divisions`: of each power of two from 1 MiB on into how many steps requests are rounded up, 0
    for the usual 512 bytes. `max_split_bytes`: larger blocks are not split; -1 for no limit.
    `expandable`: whether every remainder is split off.
    """

    divisions: tuple[int, ...]
    max_split_bytes: int
    expandable: bool


def block_rules(settings: dict[str, object]) -> BlockRules:
    """The rules that `allocator_settings` say, PyTorch's defaults for what it does not say."""
    limit = settings.get("max_split_size")
    return BlockRules(
        divisions=_divisions(settings.get("roundup_power2_divisions")),
        max_split_bytes=_number(limit, -1),
        expandable=bool(settings.get("expandable_segments", False)),
    )


def _divisions(found: object) -> tuple[int, ...]:
    """One number for all sizes, a list, or {"1": n, "2": n, "4": n, …} by MiB."""
    steps = [0] * STEPS
    if isinstance(found, dict):
        for name, value in found.items():
            known = isinstance(name, str) and len(name) <= _DIGITS and name.isdecimal()
            megabytes = int(name) if known else 0
            if 0 < megabytes < 1 << STEPS:
                steps[megabytes.bit_length() - 1] = _number(value, 0)
    elif isinstance(found, list):
        steps = [_number(value, 0) for value in (*found[:STEPS], *[0] * STEPS)][:STEPS]
    else:
        steps = [_number(found, 0)] * STEPS
    return tuple(max(0, step) for step in steps)


def _number(value: object, otherwise: int) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return otherwise
    return int(max(-_LARGEST, min(_LARGEST, value)))
