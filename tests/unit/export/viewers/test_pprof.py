"""pprof: decoded by Google's protobuf with profile.proto's fields, a profile matches the live
set.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.pprof import render_pprof
from memreplay.export.viewers.weighted import stacks_report
from tests import views
from tests.strategies import traces

# The messages of github.com/google/pprof/proto/profile.proto: field, number, type ("" for a
# string), "*" if it is repeated.
MESSAGES = {
    "ValueType": {"type": (1, "int64"), "unit": (2, "int64")},
    "Label": {
        "key": (1, "int64"),
        "str": (2, "int64"),
        "num": (3, "int64"),
        "num_unit": (4, "int64"),
    },
    "Line": {"function_id": (1, "uint64"), "line": (2, "int64")},
    "Sample": {"location_id": (1, "uint64*"), "value": (2, "int64*"), "label": (3, "Label*")},
    "Location": {
        "id": (1, "uint64"),
        "mapping_id": (2, "uint64"),
        "address": (3, "uint64"),
        "line": (4, "Line*"),
        "is_folded": (5, "bool"),
    },
    "Mapping": {
        "id": (1, "uint64"),
        "memory_start": (2, "uint64"),
        "memory_limit": (3, "uint64"),
        "file_offset": (4, "uint64"),
        "filename": (5, "int64"),
        "build_id": (6, "int64"),
        "has_functions": (7, "bool"),
        "has_filenames": (8, "bool"),
        "has_line_numbers": (9, "bool"),
        "has_inline_frames": (10, "bool"),
    },
    "Function": {
        "id": (1, "uint64"),
        "name": (2, "int64"),
        "system_name": (3, "int64"),
        "filename": (4, "int64"),
        "start_line": (5, "int64"),
    },
    "Profile": {
        "sample_type": (1, "ValueType*"),
        "sample": (2, "Sample*"),
        "mapping": (3, "Mapping*"),
        "location": (4, "Location*"),
        "function": (5, "Function*"),
        "string_table": (6, "string*"),
        "drop_frames": (7, "int64"),
        "keep_frames": (8, "int64"),
        "time_nanos": (9, "int64"),
        "duration_nanos": (10, "int64"),
        "period_type": (11, "ValueType"),
        "period": (12, "int64"),
        "comment": (13, "int64*"),
        "default_sample_type": (14, "int64"),
    },
}


def profile_class() -> Any:
    field_of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="perftools.profiles", syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            plain = kind.rstrip("*")
            made = message.field.add(name=field, number=number)
            made.label = field_of.LABEL_REPEATED if kind != plain else field_of.LABEL_OPTIONAL
            if plain in MESSAGES:
                made.type, made.type_name = field_of.TYPE_MESSAGE, f".perftools.profiles.{plain}"
            else:
                made.type = getattr(field_of, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


Profile = profile_class()


def decoded(report: Any) -> Any:
    profile = Profile()
    profile.ParseFromString(b"".join(render_pprof(report)))
    # Only known values were written.
    assert profile.SerializeToString()
    assert not _unknown(profile)
    return profile


def _unknown(message: Any) -> bool:
    again = type(message)()
    again.ParseFromString(message.SerializeToString())
    again.DiscardUnknownFields()
    return bool(again != message)


@given(traces(), st.booleans())
def test_profile_matches_the_live_set(snapshot: Any, all_frames: bool) -> None:
    report = stacks_report(views.opened(snapshot), all_frames=all_frames)
    profile = decoded(report)
    table = profile.string_table
    assert table[0] == ""
    functions = {one.id: one for one in profile.function}
    locations = {one.id: one for one in profile.location}
    assert 0 not in functions
    assert 0 not in locations
    assert len(locations) == len(profile.location)
    found: dict[tuple[int, tuple[tuple[str, str, int], ...]], tuple[int, int]] = {}
    for sample in profile.sample:
        (label,) = sample.label
        assert table[label.key] == "device"
        path = []
        for at in sample.location_id:
            (line,) = locations[at].line
            function = functions[line.function_id]
            path.append((table[function.name], table[function.filename], line.line))
        count, n_bytes = sample.value
        found[int(table[label.str]), tuple(path)] = (n_bytes, count)
    want = {
        (
            device.device,
            tuple(
                (frame.function or "(no name)", frame.file, frame.line)
                for frame in (report.frames[i] for i in reversed(one.path))
            ),
        ): (one.bytes, one.count)
        for device in report.devices
        for one in device.stacks
    }
    assert found == want


def test_profile_has_its_types_and_time() -> None:
    snap = views.opened(views.everything())
    profile = decoded(stacks_report(snap))
    table = profile.string_table
    kinds = [(table[one.type], table[one.unit]) for one in profile.sample_type]
    assert kinds == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert table[profile.default_sample_type] == "inuse_space"
    assert profile.time_nanos == 1000 * (snap.replay(0).peak.time_us or 0)
    assert [table[one] for one in profile.comment] == [
        "device 0: requested bytes live after event 1",
        "device 1: requested bytes live after event 0",
    ]
    (mapping,) = profile.mapping
    assert (table[mapping.filename], mapping.has_functions) == (snap.file, True)
    assert {one.mapping_id for one in profile.location} == {mapping.id}
    made = decoded(stacks_report(snap, what="allocated"))
    assert made.string_table[made.default_sample_type] == "alloc_space"


def test_names_are_unchanged() -> None:
    profile = decoded(stacks_report(views.opened(views.everything())))
    assert views.NASTY[0] in profile.string_table
    # If the system name equals the name, viewers take it for a mangled C++ name.
    assert {one.system_name for one in profile.function} == {0}
