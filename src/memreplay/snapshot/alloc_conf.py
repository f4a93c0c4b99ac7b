"""An allocator's settings as PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF spell them.

Keys, units and bounds are those of torch 2.15, c10/core/AllocatorConfig and
c10/cuda/CUDAAllocatorConfig; ci/truth holds this against PyTorch's own parser. Torch 2.5 has no
max_non_split_rounding_mb, large_segment_size_mb and per_process_memory_fraction, takes a
max_split_size_mb from 21 on, and minds separators; with it `>` of roundup_power2_divisions counts
from the size before it on, not from the one after that.

What PyTorch takes and this refuses, on purpose:

- a wrong separator: to PyTorch any of `:`, `,`, `[` and `]` is as good between two words;
- a number with more than its digits: of "128MB" and "128.5" PyTorch reads 128, "-1" is 2**64 - 1 to
  it, and "0x1p-1" is 0.5;
- large_segment_size_mb above 1 TiB, and divisions above 2**62, which nothing needs;
- `expandable_segments_reserve` and `expandable_segments_reserve_by_class`: how many addresses an
  expandable segment has. When they are used up another one is made, and a larger request fails. A
  program says which class a stream is of, and no snapshot does.
- `backend:cudaMallocAsync`, whose blocks are the driver's.

Nothing is taken that PyTorch refuses. What a file's text says is read as PyTorch reads it, since it
has run: wrong separators and what is behind digits are passed over. Signed and hexadecimal numbers
are left out, as is what PyTorch would have refused.
"""

from __future__ import annotations

import re
import sys
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from memreplay.errors import UsageError
from memreplay.snapshot.backends import VARIABLES
from memreplay.snapshot.settings import STEPS, block_rules

MIB = 1 << 20
LARGE_SEGMENT = 20 * MIB  # what large requests below 10 MiB share, where nothing else is set

KEYS = (
    "expandable_segments",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "large_segment_size_mb",
    "per_process_memory_fraction",
)
"""What decides which block serves a request, in the order in which `spelled` has them."""

# What says nothing of which block serves a request: a switch, or a number with its bounds.
_SWITCHES = frozenset(
    {
        "graph_capture_record_stream_reuse",
        "pinned_free_catch_all",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "throw_on_cudamalloc_oom",
    }
)
_NUMBERS = {  # the least
    "pinned_max_cached_size_mb": 0,
    "pinned_max_round_threshold_mb": 0,
    "pinned_num_register_threads": 1,
    "pinned_reserve_segment_size_mb": 1,
}
_REGISTER_THREADS = 128  # at most
_RESERVES = ("expandable_segments_reserve", "expandable_segments_reserve_by_class")

_LEAST_SEGMENT_MB, _LARGEST_SEGMENT_MB = 11, 1 << 20
_LARGEST = 2**62  # what the engine counts in has room for it
_SIZE_T = 2**64
_LONGEST = 1 << 17  # bytes that Linux has for a variable of the environment
_SHOWN = 40

# `re` compiles these when they are first needed: many a snapshot is read without. Each matches in
# one pass, whatever is behind it.
_SPACE = r"[ \t\n\v\f\r]+"
_TOKEN = r"[:,\[\]]|[^:,\[\]]+"
_WHOLE = r"[0-9]+"
_REAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEXADECIMAL = r"[+-]?0[xX]"  # which is not 0 with more behind it


class AllocatorSettings(Struct, frozen=True):
    """The settings that decide which block serves a request; PyTorch's own where nothing is set.

    `divisions`: roundup_power2_divisions, a number for each power of two from 1 MiB to 32 GiB (0
    and 1: none). `max_split_bytes`: -1 for no limit. `collect_threshold`: the part of what the
    process may have from which on cached memory is collected; 0 for never, and PyTorch never does
    it where the process may have all of the card. `memory_fraction`: the part of the card that it
    may have; None for all of it.
    """

    divisions: tuple[int, ...] = (0,) * STEPS
    max_split_bytes: int = -1
    max_non_split_bytes: int = LARGE_SEGMENT
    large_segment_bytes: int = LARGE_SEGMENT
    expandable: bool = False
    collect_threshold: float = 0.0
    memory_fraction: float | None = None


def recorded_settings(found: dict[str, object]) -> AllocatorSettings:
    """Those of a snapshot: its `allocator_settings`, and what only their text says.

    Nothing in a file is an error: what cannot be is left out. The text is that of the last call:
    what one before it set of large segments or the memory fraction is not in it, nor is what
    torch.cuda.set_per_process_memory_fraction() set.
    """
    text = next((found[name] for name in VARIABLES if name in found), None)
    said = AllocatorSettings()
    if isinstance(text, str) and 0 < len(text) <= _LONGEST:
        said = _Reading(said, exact=False).read(text)
    rules = block_rules(found)
    limit = rules.max_split_bytes
    threshold = found.get("garbage_collection_threshold")
    return replace(
        said,
        divisions=rules.divisions,
        max_split_bytes=limit if 0 <= limit < _LARGEST else -1,
        expandable=rules.expandable,
        collect_threshold=threshold if _is_part(threshold) else 0.0,
    )


def changed_settings(settings: AllocatorSettings, text: str) -> AllocatorSettings:
    """The settings with what a text as "max_split_size_mb:128,expandable_segments:True" says.

    What the text names has the value that PyTorch gives it for this text alone, and what it does
    not name stays; but for max_non_split_rounding_mb, which is as large_segment_size_mb as long as
    it was so before. (PyTorch puts max_split_size_mb, roundup_power2_divisions,
    garbage_collection_threshold and max_non_split_rounding_mb back to their defaults whenever it is
    given a text.)

    Raises UsageError for what PyTorch would not take: other keys, values out of bounds, another
    form. See above for what it would take and this does not.
    """
    if not isinstance(text, str):
        raise TypeError(f"settings are a text as 'expandable_segments:True', not {text!r}")
    return _Reading(settings, exact=True).read(text)


def spelled(settings: AllocatorSettings) -> str:
    """The text that gives these settings, with what is not PyTorch's default; "" for that.

    Sizes are whole MiB: what lies in between cannot be spelled, and is rounded down.
    """
    default = AllocatorSettings()
    said = {
        "expandable_segments": "True" if settings.expandable else None,
        "max_split_size_mb": _spelled_size(settings.max_split_bytes, -1),
        # Where it is not said it is as large_segment_size_mb.
        "max_non_split_rounding_mb": _spelled_size(
            settings.max_non_split_bytes, settings.large_segment_bytes
        ),
        "roundup_power2_divisions": _spelled_divisions(settings.divisions),
        "garbage_collection_threshold": repr(settings.collect_threshold)
        if settings.collect_threshold
        else None,
        "large_segment_size_mb": _spelled_size(
            settings.large_segment_bytes, default.large_segment_bytes
        ),
        "per_process_memory_fraction": None
        if settings.memory_fraction is None
        else repr(settings.memory_fraction),
    }
    return ",".join(f"{key}:{said[key]}" for key in KEYS if said[key] is not None)


class _Reading:
    """One text on top of settings. `exact`: whether what is wrong is an error; else it is left out,
    and what PyTorch passes over is passed over."""

    def __init__(self, settings: AllocatorSettings, *, exact: bool) -> None:
        self.settings = settings
        self.exact = exact
        self.named: set[str] = set()
        self.tokens: list[str] = []
        self.parts: list[tuple[str, list[str]]] = []

    def read(self, text: str) -> AllocatorSettings:
        self.tokens = re.findall(_TOKEN, re.sub(_SPACE, "", text))
        try:
            self.split()
        except UsageError:
            if self.exact:
                raise
        # What the others must not be below is read first, as PyTorch does.
        self.parts.sort(key=lambda part: part[0] != "large_segment_size_mb")
        for key, value in self.parts:
            try:
                self.change(key, value)
            except UsageError:
                if self.exact:
                    raise
            self.named.add(key)
        if "large_segment_size_mb" in self.named:
            self.check_others()
        return self.settings

    def split(self) -> None:
        """Keys with their values, of one token, or of several between brackets."""
        at = 0
        while at < len(self.tokens):
            key = self.tokens[at]
            if key in ":,[]":
                raise UsageError(f"a setting is missing before {key!r}: {_FORM}")
            if self.exact and key not in KEYS:
                _check_other_key(key)
            if at + 2 >= len(self.tokens):
                raise UsageError(f"{_shown(key)} has no value: {_FORM}")
            self.separator(at + 1, ":")
            end = at + 2
            if self.tokens[end] == "[":
                try:
                    end = self.tokens.index("]", end)
                except ValueError:
                    raise UsageError(
                        f"the list of {_shown(key)} has no end: ']' is missing"
                    ) from None
            self.parts.append((key, self.tokens[at + 2 : end + 1]))
            if end + 1 < len(self.tokens):
                self.separator(end + 1, ",")
            at = end + 2

    def separator(self, at: int, wanted: str) -> None:
        if self.exact and self.tokens[at] != wanted:
            place = f"{_shown(self.tokens[at - 1])} and {_shown(self.tokens[at])}"
            raise UsageError(f"{wanted!r} is missing between {place}: {_FORM}")

    def change(self, key: str, value: list[str]) -> None:
        """Apply one setting."""
        if key == "roundup_power2_divisions":
            before = self.settings.divisions if key in self.named else (0,) * STEPS
            divisions = self.listed(key, value, list(before))
            self.settings = replace(self.settings, divisions=divisions)
            return
        if len(value) > 1:
            raise UsageError(f"{key} has one value, not a list")
        (one,) = value
        large = self.settings.large_segment_bytes
        if key == "expandable_segments":
            self.settings = replace(self.settings, expandable=_switch(key, one))
        elif key == "max_split_size_mb":
            size = self.megabytes(key, one, large // MIB)
            self.settings = replace(self.settings, max_split_bytes=-1 if size >= _LARGEST else size)
        elif key == "max_non_split_rounding_mb":
            size = self.megabytes(key, one, large // MIB)
            self.settings = replace(self.settings, max_non_split_bytes=size)
        elif key == "large_segment_size_mb":
            size = self.megabytes(key, one, _LEAST_SEGMENT_MB, _LARGEST_SEGMENT_MB)
            rest = self.settings.max_non_split_bytes
            self.settings = replace(
                self.settings,
                large_segment_bytes=size,
                max_non_split_bytes=size if rest == large else rest,
            )
        elif key == "garbage_collection_threshold":
            part = self.real(key, one)
            if not 0 < part < 1:
                raise UsageError(f"{key} is a number above 0 and below 1, not {_shown(one)}")
            self.settings = replace(self.settings, collect_threshold=part)
        elif key == "per_process_memory_fraction":
            part = self.real(key, one)
            if not 0 <= part <= 1:
                raise UsageError(f"{key} is a number from 0 to 1, not {_shown(one)}")
            # All of the card is no limit to PyTorch, as if nothing were said; and -0.0 is 0.0.
            self.settings = replace(self.settings, memory_fraction=None if part == 1 else abs(part))
        elif self.exact:
            self.check_without_effect(key, one)

    def check_without_effect(self, key: str, value: str) -> None:
        """Raise for a value that PyTorch would not take of what changes no block."""
        if key in _SWITCHES:
            _switch(key, value)
        elif key in _NUMBERS:
            number = self.whole(key, value)
            if number < _NUMBERS[key]:
                raise UsageError(f"{key} is at least {_NUMBERS[key]}, not {_shown(value)}")
            most = _REGISTER_THREADS
            if key == "pinned_num_register_threads" and not (_is_power(number) and number <= most):
                raise UsageError(f"{key} is a power of two up to {most}, not {_shown(value)}")
        elif value == "cudaMallocAsync":
            raise UsageError("backend:cudaMallocAsync: only the native backend is simulated")
        elif value != "native":
            raise UsageError(f"backend is native or cudaMallocAsync, not {_shown(value)}")

    def check_others(self) -> None:
        """What was set before must not be below the large segments of now."""
        large = self.settings.large_segment_bytes
        for key, size in (
            ("max_split_size_mb", self.settings.max_split_bytes),
            ("max_non_split_rounding_mb", self.settings.max_non_split_bytes),
        ):
            if self.exact and key not in self.named and 0 <= size < large:
                raise UsageError(
                    f"large_segment_size_mb:{large // MIB} needs {key} of at least that,"
                    f" and it is {size // MIB}: say both"
                )

    def listed(self, key: str, value: list[str], divisions: list[int]) -> tuple[int, ...]:
        """roundup_power2_divisions: one number, or [256:1,512:2,>:4] by MiB.

        The first counts for all sizes below it, too, the others for themselves alone, and `>` for
        all sizes above the one that is named before it.
        """
        if len(value) == 1:
            return (self.division(key, value[0], least=1),) * STEPS
        last, first, at = 0, True, 1
        while at < len(value) - 1:
            if at + 2 >= len(value) - 1:
                raise UsageError(f"{key} is {_LIST}")
            name = value[at]
            if self.exact and (value[at + 1] != ":" or value[at + 3] not in (",", "]")):
                raise UsageError(f"{key} is {_LIST}")
            count = self.division(key, value[at + 2], least=0)
            if name == ">":
                divisions[last + 1 :] = [count] * (STEPS - last - 1)
            else:
                boundary = self.whole(key, name)
                if not _is_power(boundary):
                    raise UsageError(f"{key} takes powers of two as sizes, not {_shown(name)}")
                last = min(boundary.bit_length(), STEPS) - 1
                divisions[0 if first else last : last + 1] = [count] * (last + 1 if first else 1)
                first = False
            at += 4
        return tuple(divisions)

    def division(self, key: str, value: str, least: int) -> int:
        count = self.whole(key, value)
        if count < least or count > _LARGEST or (count and not _is_power(count)):
            which = "powers of two" if least else "powers of two, or 0 for none"
            raise UsageError(f"{key} takes {which}, not {_shown(value)}")
        return count

    def megabytes(self, key: str, value: str, least: int, most: int | None = None) -> int:
        """MiB as bytes, not more than the engine counts with."""
        number = self.whole(key, value)
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise UsageError(f"{key} is {bounds}, not {_shown(value)}")
        return min(number * MIB, _LARGEST)

    def whole(self, key: str, value: str) -> int:
        """Digits, with more behind them where that is no error; as large as PyTorch has it."""
        found = re.fullmatch(_WHOLE, value) if self.exact else re.match(_WHOLE, value)
        digits = found[0].lstrip("0") or "0" if found else ""
        # Python makes no number of thousands of digits.
        if not digits or len(digits) > len(str(_SIZE_T)) or int(digits) >= _SIZE_T:
            raise UsageError(f"{key} takes whole numbers, not {_shown(value)}")
        return int(digits)

    def real(self, key: str, value: str) -> float:
        """A decimal number that a double has with all its digits, as PyTorch asks for."""
        found = re.fullmatch(_REAL, value) if self.exact else re.match(_REAL, value)
        if found is None or re.match(_HEXADECIMAL, value):
            raise UsageError(f"{key} takes a number as 0.8, not {_shown(value)}")
        number = float(found[0])
        if abs(number) < sys.float_info.min and re.match("[^eE]*[1-9]", found[0]):
            raise UsageError(f"{key}: {_shown(value)} is too close to 0")
        return number


_LIST = "a number, or a list as [256:1,512:2,>:4]"
_FORM = "settings are KEY:VALUE,KEY:VALUE"


def _check_other_key(key: str) -> None:
    """Raise for a key that there is not, or that is not simulated."""
    if key in _RESERVES:
        raise UsageError(f"{key} is not simulated: segments reserve what they do without it")
    if key not in _SWITCHES and key not in _NUMBERS and key != "backend":
        raise UsageError(
            f"there is no allocator setting {_shown(key)}; there are: {', '.join(KEYS)}"
        )


def _switch(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise UsageError(f"{key} is True or False, not {_shown(value)}")
    return value == "True"


def _shown(value: str) -> str:
    """What was written, on one line, and not all of it where it is long."""
    return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _is_part(value: object) -> TypeGuard[float]:
    """Whether it is a number above 0 and below 1, which NaN is not."""
    return isinstance(value, float) and 0.0 < value < 1.0


def _spelled_size(size: int, default: int) -> str | None:
    return None if size == default else str(size // MIB)


def _spelled_divisions(divisions: tuple[int, ...]) -> str | None:
    """One number where all are the same; else with as few entries as are needed."""
    if len(set(divisions)) == 1:
        return str(divisions[0]) if divisions[0] else None
    first = next(i for i in range(STEPS) if divisions[i + 1] != divisions[0])
    last = next(i for i in reversed(range(STEPS)) if divisions[i - 1] != divisions[-1])
    entries = [f"{1 << i}:{divisions[i]}" for i in range(first, last)]
    return f"[{','.join([*entries, f'>:{divisions[-1]}'])}]"
