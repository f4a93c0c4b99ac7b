"""protobuf: Google's own library reads our output."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.internal import decoder
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.protobuf import data, number, packed, text, varint


@given(st.integers(0, 2**64 - 1))
def test_varint_is_decoded(value: int) -> None:
    assert decoder._DecodeVarint(varint(value), 0)[0] == value


@given(st.integers(-(2**31), 2**31 - 1), st.text())
def test_text_and_number_fields_are_decoded(value: int, words: str) -> None:
    # EnumValueDescriptorProto: a name (1) and a number (2).
    found = descriptor_pb2.EnumValueDescriptorProto()
    found.ParseFromString(text(1, words) + number(2, value))
    assert (found.name, found.number) == (words, value)


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_packed_fields_are_decoded(values: list[int]) -> None:
    # SourceCodeInfo.Location is a nested message (1) with a packed path (1).
    found = descriptor_pb2.SourceCodeInfo()
    found.ParseFromString(data(1, packed(1, values)))
    assert list(found.location[0].path) == values


def test_lone_surrogates_are_replaced() -> None:
    assert text(1, "a\ud800") == b"\x0a\x02a?"


@pytest.mark.parametrize("value", [-1, -(2**63)])
def test_negative_number_takes_ten_bytes(value: int) -> None:
    assert len(varint(value)) == 10
