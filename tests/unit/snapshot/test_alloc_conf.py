"""alloc_conf: parsing allocator settings as PyTorch does. ci/truth compares the results with
PyTorch's.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, astuple, replace

from memreplay.errors import UsageError
from memreplay.snapshot.alloc_conf import (
    KEYS,
    MIB,
    AllocatorSettings,
    changed_settings,
    recorded_settings,
    spelled,
)
from memreplay.snapshot.settings import STEPS

DEFAULT = AllocatorSettings()
NONE = (0,) * STEPS


def changed(text: str, settings: AllocatorSettings = DEFAULT) -> dict[str, Any]:
    """Return the settings that a string changes."""
    after = asdict(changed_settings(settings, text))
    return {name: value for name, value in after.items() if value != getattr(settings, name)}


def test_empty_settings_are_pytorchs_defaults() -> None:
    assert astuple(AllocatorSettings()) == (NONE, -1, 20 * MIB, 20 * MIB, False, 0.0, None)
    assert recorded_settings({}) == DEFAULT
    assert changed_settings(DEFAULT, "") == DEFAULT
    assert spelled(DEFAULT) == ""


@pytest.mark.parametrize(
    "text, want",
    [
        ("max_split_size_mb:20", {"max_split_bytes": 20 * MIB}),
        ("max_split_size_mb:00128", {"max_split_bytes": 128 * MIB}),
        ("max_split_size_mb:8796093022208", {}),  # 2**63 bytes: no block is this large
        ("max_split_size_mb:18446744073709551615", {}),
        ("max_non_split_rounding_mb:64", {"max_non_split_bytes": 64 * MIB}),
        ("max_non_split_rounding_mb:18446744073709551615", {"max_non_split_bytes": 2**62}),
        (
            "large_segment_size_mb:11",
            {"large_segment_bytes": 11 * MIB, "max_non_split_bytes": 11 * MIB},
        ),
        (
            "large_segment_size_mb:1048576,max_non_split_rounding_mb:1048577",
            {"large_segment_bytes": 1 << 40, "max_non_split_bytes": (1 << 40) + MIB},
        ),
        ("expandable_segments:True", {"expandable": True}),
        ("expandable_segments:True,expandable_segments:False", {}),
        ("garbage_collection_threshold:.8", {"collect_threshold": 0.8}),
        ("garbage_collection_threshold:8e-1", {"collect_threshold": 0.8}),
        ("per_process_memory_fraction:0.25", {"memory_fraction": 0.25}),
        ("per_process_memory_fraction:0", {"memory_fraction": 0.0}),
        ("per_process_memory_fraction:1.0", {}),  # no limit in PyTorch
        (
            "max_split_size_mb:40,expandable_segments:True,",
            {"max_split_bytes": 40 * MIB, "expandable": True},
        ),
        (
            " max_split_size_mb :\t4 0 ,\nexpandable_segments:Tr ue",
            {"max_split_bytes": 40 * MIB, "expandable": True},
        ),
        ("release_lock_on_cudamalloc:True,pinned_free_catch_all:True", {}),
        ("backend:native,pinned_num_register_threads:128,throw_on_cudamalloc_oom:False", {}),
        ("pinned_max_cached_size_mb:0,pinned_reserve_segment_size_mb:1", {}),
    ],
)  # fmt: skip
def test_each_setting_changes_its_field(text: str, want: dict[str, Any]) -> None:
    assert changed(text) == want


@pytest.mark.parametrize(
    "text, want",
    [
        ("4", [4] * 16),
        ("[256:1,512:2,1024:4,>:8]", [1] * 9 + [2, 4, 8, 8, 8, 8, 8]),
        ("[4:2]", [2] * 3 + [0] * 13),
        ("[4:2,16:4]", [2, 2, 2, 0, 4] + [0] * 11),
        ("[16:4,4:2]", [4, 4, 2, 4, 4] + [0] * 11),
        ("[>:8]", [0] + [8] * 15),
        ("[>:8,4:2]", [2] * 3 + [8] * 13),
        ("[65536:2]", [2] * 16),
        ("[4:0,>:1]", [0] * 3 + [1] * 13),
        ("[4:2,]", [2] * 3 + [0] * 13),
        ("[]", [0] * 16),
        ("4,roundup_power2_divisions:[2:8]", [8] * 2 + [4] * 14),
        ("4611686018427387904", [2**62] * 16),
    ],
)
def test_divisions_are_spread_over_the_powers_of_two(text: str, want: list[int]) -> None:
    before = replace(DEFAULT, divisions=(16,) * STEPS)  # no string inherits values from another
    found = changed_settings(before, f"roundup_power2_divisions:{text}")
    assert found == replace(DEFAULT, divisions=tuple(want))


def test_unnamed_settings_are_unchanged() -> None:
    before = changed_settings(
        DEFAULT,
        "max_split_size_mb:64,max_non_split_rounding_mb:48,roundup_power2_divisions:[4:2,>:8],"
        "garbage_collection_threshold:0.5,per_process_memory_fraction:0.75",
    )
    assert changed("expandable_segments:True", before) == {"expandable": True}
    assert changed("max_split_size_mb:24", before) == {"max_split_bytes": 24 * MIB}
    assert changed("large_segment_size_mb:40", before) == {"large_segment_bytes": 40 * MIB}
    assert changed("per_process_memory_fraction:1", before) == {"memory_fraction": None}


def test_large_segment_size_is_read_first() -> None:
    """Lower bounds are checked against the last large_segment_size_mb in the string."""
    assert changed("max_split_size_mb:12,large_segment_size_mb:64,large_segment_size_mb:11") == {
        "max_split_bytes": 12 * MIB,
        "large_segment_bytes": 11 * MIB,
        "max_non_split_bytes": 11 * MIB,
    }
    with pytest.raises(UsageError, match="max_split_size_mb must be at least 40, not '39'"):
        changed("max_split_size_mb:39,large_segment_size_mb:40")
    with pytest.raises(UsageError, match="max_non_split_rounding_mb must be at least 40, not '39'"):
        changed("max_non_split_rounding_mb:39,large_segment_size_mb:40")


@pytest.mark.parametrize("key", ["max_split_size_mb", "max_non_split_rounding_mb"])
def test_remaining_settings_must_fit_large_segments(key: str) -> None:
    before = changed_settings(DEFAULT, f"{key}:32")
    assert changed_settings(before, "large_segment_size_mb:32").large_segment_bytes == 32 * MIB
    with pytest.raises(UsageError, match=f"large_segment_size_mb:33 needs {key} of at least that"):
        changed("large_segment_size_mb:33", before)
    changed_settings(before, f"large_segment_size_mb:33,{key}:33")


@pytest.mark.parametrize(
    "text, says",
    [
        ("foo:1", "no allocator setting 'foo'; available: expandable_segments, max_split"),
        ("MAX_SPLIT_SIZE_MB:40", "no allocator setting 'MAX_SPLIT_SIZE_MB'"),
        ("max_split_size_mb=40", "no allocator setting 'max_split_size_mb=40'"),
        ("\x1b[31m", r"no allocator setting '\x1b'"),
        ("é:1", r"no allocator setting '\xe9'"),
        ("x" * 100, f"no allocator setting '{'x' * 40}...'"),
        (",", "a setting is missing before ',': settings are KEY:VALUE,KEY:VALUE"),
        ("max_split_size_mb:40,,", "a setting is missing before ','"),
        ("max_split_size_mb", "'max_split_size_mb' has no value"),
        ("max_split_size_mb:", "'max_split_size_mb' has no value"),
        ("max_split_size_mb,40", "':' is missing between 'max_split_size_mb' and ','"),
        ("max_split_size_mb:40:", "',' is missing between '40' and ':'"),
        ("max_split_size_mb:[40]", "max_split_size_mb takes a single value, not a list"),
        ("max_split_size_mb:19", "max_split_size_mb must be at least 20, not '19'"),
        ("max_split_size_mb:128MB", "max_split_size_mb must be a whole number, not '128MB'"),
        ("max_split_size_mb:40.5", "max_split_size_mb must be a whole number, not '40.5'"),
        ("max_split_size_mb:-1", "max_split_size_mb must be a whole number, not '-1'"),
        ("max_split_size_mb:+40", "max_split_size_mb must be a whole number, not '+40'"),
        ("max_split_size_mb:18446744073709551616", "max_split_size_mb must be a whole number"),
        ("max_split_size_mb:٤٠", r"max_split_size_mb must be a whole number, not '\u0664\u0660'"),
        ("max_non_split_rounding_mb:19", "max_non_split_rounding_mb must be at least 20, not '19'"),
        ("large_segment_size_mb:10", "large_segment_size_mb must be from 11 to 1048576, not '10'"),
        ("large_segment_size_mb:1048577", "large_segment_size_mb must be from 11 to 1048576, not"),
        ("expandable_segments:true", "expandable_segments must be True or False, not 'true'"),
        ("expandable_segments:1", "expandable_segments must be True or False, not '1'"),
        ("garbage_collection_threshold:0", "garbage_collection_threshold must be above 0 and"),
        ("garbage_collection_threshold:1", "garbage_collection_threshold must be above 0 and"),
        ("garbage_collection_threshold:nan", "must be a number like 0.8"),
        ("garbage_collection_threshold:0x1p-1", "garbage_collection_threshold must be a number"),
        ("garbage_collection_threshold:1e-310", "garbage_collection_threshold: '1e-310' is too"),
        ("per_process_memory_fraction:1e-400", "per_process_memory_fraction: '1e-400' is too"),
        ("per_process_memory_fraction:1.1", "per_process_memory_fraction must be from 0 to 1"),
        ("per_process_memory_fraction:-0.1", "per_process_memory_fraction must be from 0 to 1"),
        ("roundup_power2_divisions:0", "roundup_power2_divisions must be a power of two, not '0'"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions must be a power of two, not '3'"),
        ("roundup_power2_divisions:9223372036854775808", "must be a power of two, not '922337"),
        ("roundup_power2_divisions:[4:3]", "must be a power of two, or 0 for none, not '3'"),
        ("roundup_power2_divisions:[3:4]", "must be powers of two, not '3'"),
        ("roundup_power2_divisions:[0:4]", "must be powers of two, not '0'"),
        ("roundup_power2_divisions:[4]", "a number, or a list like [256:1,512:2,>:4]"),
        ("roundup_power2_divisions:[4:2:8:2]", "a number, or a list like [256:1,512:2,>:4]"),
        ("roundup_power2_divisions:[4,2]", "a number, or a list like [256:1,512:2,>:4]"),
        ("roundup_power2_divisions:[4:2", "the list of 'roundup_power2_divisions' isn't closed"),
        ("backend:cudaMallocAsync", "backend:cudaMallocAsync: only the native"),
        ("backend:cuda", "backend must be native or cudaMallocAsync, not 'cuda'"),
        ("expandable_segments_reserve:0.5", "expandable_segments_reserve isn't simulated"),
        ("expandable_segments_reserve_by_class:[a:1]", "reserve_by_class isn't simulated"),
        ("pinned_num_register_threads:3", "must be a power of two up to 128, not '3'"),
        ("pinned_num_register_threads:256", "must be a power of two up to 128, not '256'"),
        ("pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb must be at least 1"),
        ("release_lock_on_cudamalloc:1", "release_lock_on_cudamalloc must be True or False"),
        ("expandable_segments:True,foo:1", "no allocator setting 'foo'"),
    ],
)  # fmt: skip
def test_invalid_settings_raise_a_one_line_error(text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        changed_settings(DEFAULT, text)
    said = str(raised.value)
    assert says in said
    assert said.isascii()
    assert said.isprintable()


def test_message_lists_all_keys() -> None:
    with pytest.raises(UsageError) as raised:
        changed_settings(DEFAULT, "foo:1")
    assert str(raised.value).endswith(", ".join(KEYS))


def test_settings_are_spelled_as_one_string() -> None:
    text = (
        "expandable_segments:True,max_split_size_mb:64,max_non_split_rounding_mb:48,"
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],garbage_collection_threshold:0.8,"
        "large_segment_size_mb:40,per_process_memory_fraction:0.5"
    )
    reversed_ = "expandable_segments:True,large_segment_size_mb:40,per_process_memory_fraction:.5,"
    reversed_ += "max_split_size_mb:64,garbage_collection_threshold:8e-1,roundup_power2_divisions:"
    reversed_ += "[256:1,512:2,1024:4,>:8],max_non_split_rounding_mb:48"
    assert spelled(changed_settings(DEFAULT, text)) == text
    assert spelled(changed_settings(DEFAULT, reversed_)) == text
    found = sorted(KEYS, key=text.index)
    assert found == list(KEYS)


@pytest.mark.parametrize(
    "text",
    [
        "large_segment_size_mb:40",
        "max_non_split_rounding_mb:20,large_segment_size_mb:11",
        "roundup_power2_divisions:1",
        "roundup_power2_divisions:[1:2,>:0]",
        "roundup_power2_divisions:[16384:2,>:4]",
        "per_process_memory_fraction:0.0",
    ],
)
def test_canonical_settings_are_spelled_unchanged(text: str) -> None:
    assert spelled(changed_settings(DEFAULT, text)) == text


POWERS = st.integers(0, 62).map(lambda power: 1 << power)
ENTRIES = st.tuples(
    POWERS.map(str) | st.just(">"), POWERS | st.just(0)
).map(lambda entry: f"{entry[0]}:{entry[1]}")  # fmt: skip
MEGABYTES = st.integers(20, 64) | st.integers(20, 2**64 - 1)
PARTS = {
    "expandable_segments": st.booleans(),
    "max_split_size_mb": MEGABYTES,
    "max_non_split_rounding_mb": MEGABYTES,
    "roundup_power2_divisions": POWERS
    | st.lists(ENTRIES, max_size=18).map(lambda entries: f"[{','.join(entries)}]"),
    "garbage_collection_threshold": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "large_segment_size_mb": st.integers(11, 32) | st.integers(11, 1 << 20),
    "per_process_memory_fraction": st.floats(0, 1),
}
TEXTS = st.lists(
    st.sampled_from(KEYS).flatmap(lambda key: PARTS[key].map(lambda value: f"{key}:{value}"))
).map(",".join)


@given(st.lists(TEXTS, max_size=3))
def test_spelled_settings_parse_as_the_same(texts: list[str]) -> None:
    settings = DEFAULT
    for text in texts:
        with contextlib.suppress(UsageError):  # below large segments, or too close to 0
            settings = changed_settings(settings, text)
    assert changed_settings(DEFAULT, spelled(settings)) == settings
    assert spelled(changed_settings(DEFAULT, spelled(settings))) == spelled(settings)


def test_recorded_values_take_precedence_over_the_text() -> None:
    found = recorded_settings(
        {
            "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:99,max_non_split_rounding_mb:64,"
            "foo:[1,2],large_segment_size_mb:40,per_process_memory_fraction:0.5,"
            "garbage_collection_threshold:0.9",
            "max_split_size": 48 * MIB,
            "garbage_collection_threshold": 0.75,
            "expandable_segments": True,
            "roundup_power2_divisions": {str(1 << i): 4 for i in range(16)},
        }
    )  # fmt: skip
    assert astuple(found) == ((4,) * 16, 48 * MIB, 64 * MIB, 40 * MIB, True, 0.75, 0.5)
    found = recorded_settings({"PYTORCH_ALLOC_CONF": "large_segment_size_mb:40"})
    assert found == replace(DEFAULT, large_segment_bytes=40 * MIB, max_non_split_bytes=40 * MIB)


@pytest.mark.parametrize(
    "text, large, non_split, fraction",
    [
        ("large_segment_size_mb:40MB", 40, 40, None),
        ("large_segment_size_mb,40]max_non_split_rounding_mb[64.5", 40, 64, None),
        ("per_process_memory_fraction:0.25x", 20, 20, 0.25),
        ("per_process_memory_fraction:0x1p-1", 20, 20, None),  # not 0, which would fit nothing
        ("large_segment_size_mb:10,max_non_split_rounding_mb:64", 20, 64, None),
        ("large_segment_size_mb:40,max_non_split_rounding_mb:39", 40, 40, None),
        ("large_segment_size_mb:40,[", 40, 40, None),
        ("large_segment_size_mb:40,max_non_split_rounding_mb:[64", 40, 40, None),
        ("foo:bar,backend:cudaMallocAsync,large_segment_size_mb:[40]", 20, 20, None),
    ],
)
def test_recorded_text_is_parsed_like_pytorch(
    text: str, large: int, non_split: int, fraction: float | None
) -> None:
    found = recorded_settings({"PYTORCH_CUDA_ALLOC_CONF": text})
    want = (large * MIB, non_split * MIB, fraction)
    assert (found.large_segment_bytes, found.max_non_split_bytes, found.memory_fraction) == want


@pytest.mark.parametrize("value", [None, True, 0, 1, -0.5, 1.0, 10**400, "0.5", [], float("nan")])
def test_invalid_threshold_means_no_garbage_collection(value: object) -> None:
    assert recorded_settings({"garbage_collection_threshold": value}).collect_threshold == 0.0


@pytest.mark.parametrize("value", [-1, -(1 << 20), -(2**63), 2**62, 2**70, 1e300, None, "40"])
def test_invalid_split_limit_means_no_limit(value: object) -> None:
    assert recorded_settings({"max_split_size": value}).max_split_bytes == -1


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**4000, "9" * 5000, b"\x00", 1j, object()]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("9" * 5000), inner),
    max_leaves=5,
)
CHARACTERS = st.text("[]:,> 0123456789.eExX-", max_size=30)
PIECES = st.lists(st.sampled_from([*KEYS, *":,[]>", "True", "64"]) | CHARACTERS).map("".join)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "PYTORCH_CUDA_ALLOC_CONF",
                "PYTORCH_ALLOC_CONF",
                "max_split_size",
                "roundup_power2_divisions",
                "garbage_collection_threshold",
                "expandable_segments",
            ]
        ),
        ANYTHING | PIECES,
    )
)
def test_any_recorded_values_give_valid_settings(found: dict[str, object]) -> None:
    settings = recorded_settings(found)
    assert len(settings.divisions) == STEPS
    assert min(settings.divisions) >= 0
    assert -1 <= settings.max_split_bytes < 2**62
    assert 11 * MIB <= settings.large_segment_bytes <= 1 << 40
    assert settings.large_segment_bytes <= settings.max_non_split_bytes <= 2**62
    assert 0 <= settings.collect_threshold < 1
    assert settings.memory_fraction is None or 0 <= settings.memory_fraction < 1


@given(PIECES)
def test_any_text_gives_settings_or_a_usage_error(text: str) -> None:
    try:
        settings = changed_settings(DEFAULT, text)
    except UsageError:
        return
    # Accepted settings parse the same way in a file.
    recorded = recorded_settings({"PYTORCH_CUDA_ALLOC_CONF": text})
    assert recorded.max_non_split_bytes == settings.max_non_split_bytes
    assert recorded.large_segment_bytes == settings.large_segment_bytes
    assert recorded.memory_fraction == settings.memory_fraction


@pytest.mark.parametrize(
    "text",
    [
        "large_segment_size_mb:" + "0" * 130_000 + "x",
        "large_segment_size_mb:" + "9" * 130_000,
        "per_process_memory_fraction:" + "1" * 130_000 + "x",
        "per_process_memory_fraction:0." + "0" * 130_000 + "1x",
        "roundup_power2_divisions:[" + "4:2," * 30_000,
        "a:[]," * 25_000,
        "a:[" * 40_000,
        "x" * 10_000_000,
    ],
    ids=lambda text: f"{text[:30]} {len(text)}",
)
def test_long_texts_take_linear_time(text: str) -> None:
    began = time.process_time()
    recorded_settings({"PYTORCH_CUDA_ALLOC_CONF": text})
    with pytest.raises(UsageError) as raised:
        changed_settings(DEFAULT, text)
    assert len(str(raised.value)) < 300
    assert time.process_time() - began < 1.0
