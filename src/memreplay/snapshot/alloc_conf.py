"""Parse and write allocator settings (PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF).

Keys, units and bounds are those of torch 2.15 (c10/core/AllocatorConfig and
c10/cuda/CUDAAllocatorConfig); ci/truth compares this module with PyTorch's own parser. Torch 2.5
doesn't have max_non_split_rounding_mb, large_segment_size_mb and per_process_memory_fraction,
accepts max_split_size_mb from 21 on, and checks separators. Its `>` in roundup_power2_divisions
applies from the previous size on, not from the size after that one.

PyTorch accepts the following, but this module deliberately doesn't:

- a wrong separator: PyTorch accepts any of `:`, `,`, `[` and `]` between two words
- a number followed by more: PyTorch reads "128MB" and "128.5" as 128, "-1" as 2**64 - 1, and
  "0x1p-1" as 0.5
- large_segment_size_mb above 1 TiB and divisions above 2**62, which nobody needs
- `expandable_segments_reserve` and `expandable_segments_reserve_by_class`, which set the size of an
  expandable segment's address space. Once that is used up, another segment is created, and larger
  requests fail. The program assigns classes to streams, and snapshots don't record that.
- `backend:cudaMallocAsync`, because the driver then manages the blocks

Anything that PyTorch rejects is rejected. Text from a file is read as PyTorch reads it, because
PyTorch has accepted that text: wrong separators and characters after digits are ignored. Signed and
hexadecimal numbers are dropped, as is anything that PyTorch would have rejected.
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
LARGE_SEGMENT = 20 * MIB  # default segment size for large requests below 10 MiB

KEYS = (
    "expandable_segments",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "large_segment_size_mb",
    "per_process_memory_fraction",
)
"""Settings that decide which block serves a request, in the order used by `spelled`."""

# Settings that don't affect which block serves a request: switches, then numbers with their limits.
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
_NUMBERS = {  # minimum of each
    "pinned_max_cached_size_mb": 0,
    "pinned_max_round_threshold_mb": 0,
    "pinned_num_register_threads": 1,
    "pinned_reserve_segment_size_mb": 1,
}
_REGISTER_THREADS = 128  # PyTorch's maximum for this setting
_RESERVES = ("expandable_segments_reserve", "expandable_segments_reserve_by_class")

_LEAST_SEGMENT_MB, _LARGEST_SEGMENT_MB = 11, 1 << 20
_LARGEST = 2**62  # a limit that makes values fit the engine's integers
_SIZE_T = 2**64
_LONGEST = 1 << 17  # length of the longest environment variable on Linux, in bytes
_SHOWN = 40

_NO_SPACE = dict.fromkeys(map(ord, " \t\n\v\f\r"))  # for str.translate
_SIGNS = ":,[]"
# `re` compiles these on first use, because many snapshots don't need them. Each pattern matches in
# a single pass, whatever follows.
_WHOLE = r"[0-9]+"
_REAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEXADECIMAL = r"[+-]?0[xX]"  # no leading zero


class AllocatorSettings(Struct, frozen=True):
    """The settings that decide which block serves a request, with PyTorch's defaults.

    `divisions`: roundup_power2_divisions, one number per power of two from 1 MiB to 32 GiB (0 and
    1: none). `max_split_bytes`: -1 means no limit. `collect_threshold`: fraction of the process's
    memory limit above which cached memory is collected; 0 means never. PyTorch never collects if
    the process may use the whole card. `memory_fraction`: fraction of the card that the process may
    use; None means all of it.
    """

    divisions: tuple[int, ...] = (0,) * STEPS
    max_split_bytes: int = -1
    max_non_split_bytes: int = LARGE_SEGMENT
    large_segment_bytes: int = LARGE_SEGMENT
    expandable: bool = False
    collect_threshold: float = 0.0
    memory_fraction: float | None = None


def recorded_settings(found: dict[str, object]) -> AllocatorSettings:
    """Return a snapshot's settings:

    `allocator_settings`, plus settings that are only in their text.

    Never fails because of a file's content; impossible values are dropped. The text is from the
    last call that changed any settings. It doesn't include large segments or a memory fraction set
    by an earlier call, or by torch.cuda.set_per_process_memory_fraction().
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
    """Change settings by text such as "max_split_size_mb:128,expandable_segments:True", and return
    them.

    Settings named in the text get the value that PyTorch gives them for this text; others stay the
    same, except that max_non_split_rounding_mb still follows large_segment_size_mb if it did
    before. (PyTorch resets max_split_size_mb, roundup_power2_divisions,
    garbage_collection_threshold and max_non_split_rounding_mb to their defaults whenever it gets
    new text.)

    Raises UsageError for text that PyTorch would reject (unknown keys, values out of bounds, bad
    syntax), and for the cases listed at the top of this module.
    """
    if not isinstance(text, str):
        raise TypeError(f"settings must be a string like 'expandable_segments:True', not {text!r}")
    return _Reading(settings, exact=True).read(text)


def spelled(settings: AllocatorSettings) -> str:
    """Return the text for these settings, leaving out PyTorch's defaults; "" if all are defaults.

    Sizes are rounded down to whole MiB, which is the unit in the text.
    """
    default = AllocatorSettings()
    said = {
        "expandable_segments": "True" if settings.expandable else None,
        "max_split_size_mb": _spelled_size(settings.max_split_bytes, -1),
        # The default is large_segment_size_mb.
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
    """Applies text to settings.

    With `exact`, errors are raised. Otherwise, invalid parts are dropped, and parts that PyTorch
    ignores are ignored.
    """

    def __init__(self, settings: AllocatorSettings, *, exact: bool) -> None:
        self.settings = settings
        self.exact = exact
        self.named: set[str] = set()
        self.tokens: list[str] = []
        self.parts: list[tuple[str, list[str]]] = []

    def read(self, text: str) -> AllocatorSettings:
        text = text.translate(_NO_SPACE)
        for sign in _SIGNS:
            text = text.replace(sign, f" {sign} ")
        self.tokens = [token for token in text.split(" ") if token]
        try:
            self.split()
        except UsageError:
            if self.exact:
                raise
        # PyTorch also reads this setting first, because it's the lower bound of the other sizes.
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
        """Split the text into keys and values. A value is one token, or several in brackets."""
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
                        f"the list of {_shown(key)} isn't closed: ']' is missing"
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
            raise UsageError(f"{key} takes a single value, not a list")
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
                raise UsageError(f"{key} must be above 0 and below 1, not {_shown(one)}")
            self.settings = replace(self.settings, collect_threshold=part)
        elif key == "per_process_memory_fraction":
            part = self.real(key, one)
            if not 0 <= part <= 1:
                raise UsageError(f"{key} must be from 0 to 1, not {_shown(one)}")
            # PyTorch treats the whole card as no limit, which is the default. Also, -0.0 becomes
            # 0.0.
            self.settings = replace(self.settings, memory_fraction=None if part == 1 else abs(part))
        elif self.exact:
            self.check_without_effect(key, one)

    def check_without_effect(self, key: str, value: str) -> None:
        """Raise for an invalid value of a setting that has no effect on blocks."""
        if key in _SWITCHES:
            _switch(key, value)
        elif key in _NUMBERS:
            number = self.whole(key, value)
            if number < _NUMBERS[key]:
                raise UsageError(f"{key} must be at least {_NUMBERS[key]}, not {_shown(value)}")
            most = _REGISTER_THREADS
            if key == "pinned_num_register_threads" and not (_is_power(number) and number <= most):
                raise UsageError(f"{key} must be a power of two up to {most}, not {_shown(value)}")
        elif value == "cudaMallocAsync":
            raise UsageError("backend:cudaMallocAsync: only the native backend is simulated")
        elif value != "native":
            raise UsageError(f"backend must be native or cudaMallocAsync, not {_shown(value)}")

    def check_others(self) -> None:
        """Check that sizes set earlier aren't below the new size of large segments."""
        large = self.settings.large_segment_bytes
        for key, size in (
            ("max_split_size_mb", self.settings.max_split_bytes),
            ("max_non_split_rounding_mb", self.settings.max_non_split_bytes),
        ):
            if self.exact and key not in self.named and 0 <= size < large:
                raise UsageError(
                    f"large_segment_size_mb:{large // MIB} needs {key} of at least that,"
                    f" but it is {size // MIB}: set both"
                )

    def listed(self, key: str, value: list[str], divisions: list[int]) -> tuple[int, ...]:
        """Parse roundup_power2_divisions: one number, or a list by size in MiB, e.g.
        [256:1,512:2,>:4].

        The first entry also applies to all smaller sizes, `>` to all sizes above the previous
        entry, and the others only to their own size.
        """
        if len(value) == 1:
            return (self.division(key, value[0], least=1),) * STEPS
        last, first, at = 0, True, 1
        while at < len(value) - 1:
            if at + 2 >= len(value) - 1:
                raise UsageError(f"{key} must be {_LIST}")
            name = value[at]
            if self.exact and (value[at + 1] != ":" or value[at + 3] not in (",", "]")):
                raise UsageError(f"{key} must be {_LIST}")
            count = self.division(key, value[at + 2], least=0)
            if name == ">":
                divisions[last + 1 :] = [count] * (STEPS - last - 1)
            else:
                boundary = self.whole(key, name)
                if not _is_power(boundary):
                    raise UsageError(f"sizes in {key} must be powers of two, not {_shown(name)}")
                last = min(boundary.bit_length(), STEPS) - 1
                divisions[0 if first else last : last + 1] = [count] * (last + 1 if first else 1)
                first = False
            at += 4
        return tuple(divisions)

    def division(self, key: str, value: str, least: int) -> int:
        count = self.whole(key, value)
        if count < least or count > _LARGEST or (count and not _is_power(count)):
            which = "a power of two" if least else "a power of two, or 0 for none"
            raise UsageError(f"{key} must be {which}, not {_shown(value)}")
        return count

    def megabytes(self, key: str, value: str, least: int, most: int | None = None) -> int:
        """Convert MiB to bytes, limited to the engine's integers."""
        number = self.whole(key, value)
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise UsageError(f"{key} must be {bounds}, not {_shown(value)}")
        return min(number * MIB, _LARGEST)

    def whole(self, key: str, value: str) -> int:
        """Parse an unsigned integer below 2**64. Unless `exact`, ignore text after the digits."""
        found = re.fullmatch(_WHOLE, value) if self.exact else re.match(_WHOLE, value)
        digits = found[0].lstrip("0") or "0" if found else ""
        # Python refuses to convert numbers with thousands of digits.
        if not digits or len(digits) > len(str(_SIZE_T)) or int(digits) >= _SIZE_T:
            raise UsageError(f"{key} must be a whole number, not {_shown(value)}")
        return int(digits)

    def real(self, key: str, value: str) -> float:
        """Parse a decimal number that isn't subnormal, as PyTorch requires."""
        found = re.fullmatch(_REAL, value) if self.exact else re.match(_REAL, value)
        if found is None or re.match(_HEXADECIMAL, value):
            raise UsageError(f"{key} must be a number like 0.8, not {_shown(value)}")
        number = float(found[0])
        if abs(number) < sys.float_info.min and re.match("[^eE]*[1-9]", found[0]):
            raise UsageError(f"{key}: {_shown(value)} is too close to 0")
        return number


_LIST = "a number, or a list like [256:1,512:2,>:4]"
_FORM = "settings are KEY:VALUE,KEY:VALUE"


def _check_other_key(key: str) -> None:
    """Raise for a key that doesn't exist or can't be simulated."""
    if key in _RESERVES:
        raise UsageError(f"{key} isn't simulated: segments reserve the default address space")
    if key not in _SWITCHES and key not in _NUMBERS and key != "backend":
        raise UsageError(f"no allocator setting {_shown(key)}; available: {', '.join(KEYS)}")


def _switch(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise UsageError(f"{key} must be True or False, not {_shown(value)}")
    return value == "True"


def _shown(value: str) -> str:
    """Return the text on one line, shortened if it's long."""
    return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _is_part(value: object) -> TypeGuard[float]:
    """Return whether a value is a number between 0 and 1 (excluding both, and NaN)."""
    return isinstance(value, float) and 0.0 < value < 1.0


def _spelled_size(size: int, default: int) -> str | None:
    return None if size == default else str(size // MIB)


def _spelled_divisions(divisions: tuple[int, ...]) -> str | None:
    """Return one number if all divisions are equal, else a list with as few entries as possible."""
    if len(set(divisions)) == 1:
        return str(divisions[0]) if divisions[0] else None
    first = next(i for i in range(STEPS) if divisions[i + 1] != divisions[0])
    last = next(i for i in reversed(range(STEPS)) if divisions[i - 1] != divisions[-1])
    entries = [f"{1 << i}:{divisions[i]}" for i in range(first, last)]
    return f"[{','.join([*entries, f'>:{divisions[-1]}'])}]"
