"""A slice keeps the keys that memreplay doesn't read, with the values that Python's own unpickler
gives them.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.app import app
from memreplay.export.snapshots.unknown import KNOWN
from tests import build
from tests.build import SnapshotBuilder

PROTOCOLS = range(6)
ALONE = "warning: only the snapshot is written"


def snapshot(n: int = 3) -> dict[str, Any]:
    builder = SnapshotBuilder()
    for i in range(n):
        builder.alloc(4096 * (i + 1), 100 + i, frames=[("f", "a.py", i)])
    builder.segment_alloc(2**40, 2**21).settings(expandable_segments=True)
    return builder.finish_segments().build()


def sliced(data: bytes, folder: Path, *options: str, name: str = "out.pkl") -> tuple[bytes, str]:
    (folder / "in.pkl").write_bytes(data)
    arguments = [
        "export",
        str(folder / "in.pkl"),
        "-o",
        str(folder / name),
        "--force",
        "--salvage",
        *options,
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return (folder / name).read_bytes(), done.stderr


def unknown(value: dict[Any, Any]) -> dict[Any, Any]:
    known = [one.decode() for one in KNOWN]
    return {key: item for key, item in value.items() if key not in known}


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
        | st.frozensets(st.integers() | st.text(max_size=4), max_size=3)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)
KEYS = st.text(max_size=9).filter(lambda key: key.encode("utf-8", "replace") not in KNOWN)


@given(
    items=st.dictionaries(KEYS | st.integers(), PLAIN, min_size=1, max_size=4),
    protocol=st.sampled_from([2, 4]),
    first=st.booleans(),
    share=st.booleans(),
)
def test_any_plain_data_is_kept(
    tmp_path_factory: pytest.TempPathFactory,
    items: dict[Any, Any],
    protocol: int,
    first: bool,
    share: bool,
) -> None:
    """The data comes before or after the snapshot's own keys, and shares objects with them."""
    own = snapshot()
    if share:
        # A shared value of a non-string key would be mistaken for one of the settings before it.
        items = {str(key): item for key, item in items.items()}
        items = {
            **items,
            "shared": [own["device_traces"][0][0], own["segments"][0]["frames"], items],
        }
    whole = {**items, **own} if first and not share else {**own, **items}
    data = build.dump(whole, protocol)
    if b"\x96" in data or b"c__builtin__" in data or b"c_codecs" in data:
        return  # protocol 2 uses calls for bytes and sets
    out, said = sliced(data, tmp_path_factory.mktemp("x"))
    assert unknown(pickle.loads(out)) == unknown(pickle.loads(data))
    assert "warning" not in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("optimized", [False, True])
def test_unknown_keys_are_kept_in_every_protocol(
    protocol: int, optimized: bool, tmp_path: Path
) -> None:
    frame = {"name": "g", "filename": "b.py", "line": 4}
    traces = [[{"action": "alloc", "frames": [frame, frame]}] * 2, []]
    value = {**snapshot(), "host_traces": traces, "n": -7, "t": (1, (2.5, "\n'ä")), "list": [[]]}
    data = build.dump(value, protocol)
    out, said = sliced(pickletools.optimize(data) if optimized else data, tmp_path)
    made = pickle.loads(out)
    assert unknown(made) == unknown(value)
    assert "warning" not in said
    # Shared objects stay shared.
    assert made["host_traces"][0][0] is made["host_traces"][0][1]
    assert max(op.proto for op, _, _ in pickletools.genops(out)) <= 4


def test_event_data_is_not_duplicated(tmp_path: Path) -> None:
    """Frames that appear first in the traces are GETs under the other key."""
    own = snapshot(100)
    own["host_traces"] = [
        [{"frames": event.get("frames", [])} for event in own["device_traces"][0]]
    ]
    out, _ = sliced(build.dump(own), tmp_path)
    assert pickle.loads(out)["host_traces"] == own["host_traces"]


@pytest.mark.parametrize("form", ["C++", "JSON", "gzip", "several", "one after the other"])
def test_unknown_keys_are_kept_in_every_form_of_file(form: str, tmp_path: Path) -> None:
    value: dict[str, Any] = {**snapshot(), "rank": [3, {"a": None}], "empty": {}}
    options: tuple[str, ...] = ()
    if form == "C++":
        data = build.dump_cpp(value)
    elif form == "JSON":
        data = json.dumps(value).encode()
    elif form == "gzip":
        data = gzip.compress(build.dump(value))
    elif form == "several":
        data, options = build.dump({"x": 1, "all": [snapshot(2), value]}), ("--pick", "2")
    else:
        data, options = build.dump(snapshot(2)) + build.dump(value), ("--pick", "2")
    out, said = sliced(data, tmp_path, *options)
    assert unknown(pickle.loads(out)) == unknown(value)
    assert said.count("warning") == said.count(ALONE) == (1 if options else 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_keys_of_a_wrapped_snapshot_are_kept_but_not_those_around_it(
    protocol: int, tmp_path: Path
) -> None:
    value = {"job": 1, "snapshot": {"before": [1], **snapshot(), "after": {"a": 2}}, "end": [2]}
    out, said = sliced(build.dump(value, protocol), tmp_path)
    assert unknown(pickle.loads(out)) == {"before": [1], "after": {"a": 2}}
    assert said.count("warning") == said.count(ALONE) == 1


@pytest.mark.parametrize(
    "form", ["dict", "JSON", "list", "tuple", "first", "before", "after", "junk"]
)
def test_other_data_in_the_file_is_reported_as_left_out(form: str, tmp_path: Path) -> None:
    own = snapshot()
    data = {
        "dict": build.dump({"rank": 0, "snapshot": own}),
        "JSON": json.dumps({"rank": 0, "snapshot": own}).encode(),
        "list": build.dump([own]),
        "tuple": build.dump((1, own)),
        "first": build.dump((own, 1)),
        "before": build.dump({"rank": 0}) + build.dump(own),
        "after": build.dump(own) + build.dump({"rank": 0}),
        "junk": build.dump(own) + b"\0\0junk",
    }[form]
    out, said = sliced(data, tmp_path)
    assert mr.open(out).replay().peak == mr.open(build.dump(own)).replay().peak
    assert said.count("warning") == said.count(ALONE) == 1
    out, said = sliced(data, tmp_path, "--to", "1", "--strip-frames=all")
    assert said.count(ALONE) == 1


@pytest.mark.parametrize("padding", [b"", b"\0" * 20, b"\n"])
def test_padding_is_not_reported_as_left_out(padding: bytes, tmp_path: Path) -> None:
    _, said = sliced(build.dump(snapshot()) + padding, tmp_path)
    assert "warning" not in said


def test_more_unknown_keys_than_one_batch_are_kept(tmp_path: Path) -> None:
    value = {
        **{f"a{i}": i for i in range(1500)},
        **snapshot(),
        **{f"b{i}": [i] for i in range(2500)},
    }
    out, _ = sliced(build.dump(value), tmp_path)
    assert unknown(pickle.loads(out)) == unknown(value)


def test_value_that_contains_itself_is_kept(tmp_path: Path) -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    out, _ = sliced(build.dump({**snapshot(), "loop": loop}), tmp_path)
    made = pickle.loads(out)["loop"]
    assert made[0] == 1
    assert made[1] is made


def test_range_keeps_unknown_keys_too(tmp_path: Path) -> None:
    value = {**snapshot(50), "extra": {"a": [1, 2]}}
    out, _ = sliced(build.dump(value), tmp_path, "--from", "10", "--to", "20")
    assert unknown(pickle.loads(out)) == {"extra": {"a": [1, 2]}}
    # A slice of the slice keeps the keys, too.
    again, _ = sliced(out, tmp_path, "--to", "5")
    assert unknown(pickle.loads(again)) == {"extra": {"a": [1, 2]}}


def test_values_that_cannot_be_kept_are_named(tmp_path: Path) -> None:
    whole: dict[str, Any] = {**snapshot(), "fine": 1}
    whole["whole"] = [whole]
    out, said = sliced(build.dump(whole), tmp_path)
    assert unknown(pickle.loads(out)) == {"fine": 1}
    assert 'warning: the key "whole" is left out: it contains itself; to keep everything' in said
    data = build.dump({**snapshot(), "fine": 1, "array": bytearray(b"x")}, 5)
    out, said = sliced(data, tmp_path)
    assert unknown(pickle.loads(out)) == {"fine": 1}
    assert 'the key "array" is left out: it has a bytearray, which needs protocol 5' in said


def test_removed_stacks_do_not_return_through_other_keys(tmp_path: Path) -> None:
    data = build.dump({**snapshot(), "host_traces": [{"filename": "secret.py"}]})
    for options in (("--strip-frames=all",), ("--strip-frames=plumbing",)):
        out, said = sliced(data, tmp_path, *options)
        assert b"secret.py" not in out
        assert "keys that memreplay doesn't read are left out: they may contain frames" in said


def test_standard_input_prints_a_note(tmp_path: Path) -> None:
    data = build.dump({**snapshot(), "x": 1})
    done = CliRunner().invoke(
        app, ["export", "-", "--salvage", "-o", str(tmp_path / "o.pkl")], input=data
    )
    assert done.exit_code == 0
    assert "standard input can't be read twice" in done.stderr


def test_json_output_keeps_what_json_supports(tmp_path: Path) -> None:
    value: dict[Any, Any] = {
        **snapshot(),
        "extra": {"a": [1, None, "x"]},
        "raw": b"bytes",
        "n": {1: 2},
    }
    value |= {5: "five", None: "none"}
    out, said = sliced(build.dump(value), tmp_path, name="out.json")
    assert unknown(json.loads(out)) == {"extra": {"a": [1, None, "x"]}}
    assert 'the key "raw" is left out: ' in said
    assert 'the key "n" is left out: ' in said
    assert said.count("a key that isn't a string") >= 2


def test_file_without_extra_keys_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memreplay.export.snapshots.unknown.open_stream", None)
    out, said = sliced(build.dump(snapshot()), tmp_path)
    assert set(unknown(pickle.loads(out))) == set()
    assert "warning" not in said


# --- hostile --------------------------------------------------------------------------------------


def spliced(items: bytes) -> bytes:
    """Return a snapshot with these opcodes as additional items of its dict."""
    plain = pickletools.optimize(build.dump({"segments": [], "device_traces": [[]]}, 2))
    assert plain.endswith(b"u.")
    return plain[:-2] + items + b"u."


def test_nested_ranges_take_linear_time_and_space(tmp_path: Path) -> None:
    # The lists are nested, each in the memo, and the innermost is read first.
    depth = 3000
    nested = b"X\x01\0\0\0a" + b"".join(b"]r" + i.to_bytes(4, "little") for i in range(depth))
    nested += b"X\x04\0\0\0" + b"text" + b"a" * depth
    gets = b"".join(
        b"X\x08\0\0\0" + f"{i:08}".encode() + b"j" + i.to_bytes(4, "little")
        for i in reversed(range(depth))
    )
    data = spliced(nested + gets)
    out, _ = sliced(data, tmp_path)
    assert len(out) < 4 * len(data) + 200_000


@pytest.mark.parametrize(
    "items",
    [
        b"X\x01\0\0\0a]q\x01X\x01\0\0\0bh\x01K\x01a",  # a list that changes after its use
        b"X\x01\0\0\0a]q\x01K\x01q\x01a",  # an entry that is stored twice
        b"X\x01\0\0\0aK\x052",  # DUP: b has no key
    ],
)
def test_unusual_pickles_do_not_crash(items: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.pkl").write_bytes(spliced(items))
    done = CliRunner().invoke(
        app,
        [
            "export",
            str(tmp_path / "in.pkl"),
            "--salvage",
            "-o",
            str(tmp_path / "o.pkl"),
            "--force",
        ],
    )
    assert done.exit_code in (0, 3), done.output
    assert "Traceback" not in done.output
    if done.exit_code == 0:
        pickle.loads((tmp_path / "o.pkl").read_bytes())


def with_value(opcode: bytes) -> bytes:
    """Return a pickle with an unknown key "bad", whose value's last item is this opcode's."""
    data = pickle.dumps({**snapshot(), "bad": [True, 7], "good": "ä"}, 2)
    assert data.count(b"\x88K\x07") == 1
    return data.replace(b"\x88K\x07", b"\x88" + opcode)


@pytest.mark.parametrize(
    "opcode",
    [
        b"\x8c\x02\xc3(",
        b"X\x01\x00\x00\x00\x80",
        b"\x8d\x01\x00\x00\x00\x00\x00\x00\x00\xff",
        b"U\x01\x80",
        b"T\x01\x00\x00\x00\x80",
        b"V\\u12\n",
        b"S'a\n",
        b"S'\\xe9'\n",
        b"F1.5.\n",
        b"I1x\n",
        b"I" + b"1" * 4301 + b"\n",
        b"L5M\n",
    ],
    ids=lambda opcode: repr(opcode[:8]),
)
def test_a_value_that_python_cannot_load_is_an_error(opcode: bytes) -> None:
    from memreplay.engine.write import _slicing
    from memreplay.errors import SnapshotError

    data = with_value(opcode)
    with pytest.raises((ValueError, pickle.UnpicklingError)):
        pickle.loads(data)
    items = _slicing.Unknown(data, data.index(b"]", data.index(b"device_traces")), KNOWN)
    bad = [i for i in range(len(items)) if b"bad" in items.key(i)]
    assert len(bad) == 1
    with pytest.raises(SnapshotError, match="a text or number that can't be read"):
        items.value(bad[0])


def test_a_value_that_python_cannot_load_is_left_out(tmp_path: Path) -> None:
    out, said = sliced(with_value(b"\x8c\x02\xc3("), tmp_path)
    assert unknown(pickle.loads(out)) == {"good": "ä"}
    assert "bad" in said


@given(st.data())
def test_any_bytes_give_an_error_or_a_loadable_value(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The native code reports damaged pickles as errors, or as values that can be loaded."""
    from memreplay.engine.write import _slicing
    from memreplay.errors import SnapshotError

    value = {"a": [1, "x", (2, 3)], **snapshot(2), "b": {"c": [None, b"x"]}}
    whole = bytearray(build.dump(value, data.draw(st.sampled_from([0, 2, 4]))))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    at = data.draw(st.integers(0, len(whole)))
    try:
        items = _slicing.Unknown(bytes(whole), at, KNOWN)
    except SnapshotError:
        return
    assert len(items.flaws()) == len(items)
    for i in range(len(items)):
        for ask in (items.key, items.value):
            with contextlib.suppress(SnapshotError):
                list(pickletools.genops(io.BytesIO(ask(i))))


OF_THE_FILE = re.compile(r'"(?:file|file_bytes|stream_bytes|commands)": [^\n]*')
SOURCE = "def f():\n    x = torch.empty(9)\n\x1b[31m'é"


@pytest.mark.parametrize(
    "code",
    [
        SOURCE,
        {"a.py": SOURCE},
        {"a.py": SOURCE.splitlines(), "b.py": []},
        {"a.py": {1: "x = 1", 2: "y = 2"}},
        [("a.py", 1, "x = 1")],
        None,
    ],
    ids=lambda code: type(code).__name__,
)
def test_source_code_of_another_tool_is_kept_and_changes_no_answer(
    code: object, tmp_path: Path
) -> None:
    """No format is known for such keys, so they're kept but not interpreted."""
    plain = snapshot()
    frame = plain["device_traces"][0][0]["frames"][0]
    value = {**pickle.loads(build.dump(plain)), "source_code": code}
    for event in value["device_traces"][0]:
        event["source_code"] = code
        if "frames" in event:
            event["frames"] = [{**one, "source_code": code} for one in event["frames"]]
    assert frame != value["device_traces"][0][0]["frames"][0]
    answers = []
    for name, one in (("plain", plain), ("other", value)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "in.pkl").write_bytes(build.dump(one))
        found = []
        for words in (["report"], ["summary"], ["peak"], ["at", "end"], ["timeline"], ["oom"]):
            command = [words[0], str(folder / "in.pkl"), *words[1:], "--json"]
            done = CliRunner().invoke(app, command)
            assert done.exit_code == 0, done.output
            found.append(OF_THE_FILE.sub("", done.stdout))
        answers.append([one.replace(str(folder), "") for one in found])
    assert answers[0] == answers[1]
    for protocol in ("2", "4"):
        out, said = sliced(build.dump(value), tmp_path, "--protocol", protocol)
        assert unknown(pickle.loads(out)) == {"source_code": code}
        assert "warning" not in said
    out, _ = sliced(build.dump(value), tmp_path, name="out.html")
    assert b"x = torch.empty" not in out
