"""Derive the rules for block sizes from a snapshot's allocator settings (docs/allocator.md)."""

from __future__ import annotations

from msgspec import Struct

# Powers of two from 1 MiB to 32 GiB, the sizes that roundup_power2_divisions distinguishes.
STEPS = 16
_LARGEST = 2**62
# most digits of a size in MiB; Python refuses to convert thousands of digits
_DIGITS = len(str(1 << STEPS))


class BlockRules(Struct, frozen=True):
    """The settings on which sizes depend, for the engine.

    `divisions`: the number of rounding steps for each power of two from 1 MiB on; 0 for the default
    steps of 512 bytes. `max_split_bytes`: larger blocks are not split; -1 for no limit.
    `expandable`: every remainder is split off.
    """

    divisions: tuple[int, ...]
    max_split_bytes: int
    expandable: bool


def block_rules(settings: dict[str, object]) -> BlockRules:
    """Return the rules in `allocator_settings`, with PyTorch's defaults for missing ones."""
    limit = settings.get("max_split_size")
    return BlockRules(
        divisions=_divisions(settings.get("roundup_power2_divisions")),
        max_split_bytes=_number(limit, -1),
        expandable=bool(settings.get("expandable_segments", False)),
    )


def _divisions(found: object) -> tuple[int, ...]:
    """Parse one number for all sizes, a list, or a dict by MiB, e.g. {"1": n, "2": n, "4": n}."""
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
