"""Tests of render/fit.py."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.render import fit
from memreplay.render.document import Place
from memreplay.texts import clean

PLACE = Place("forward", "/home/ada/run/src/model/layers.py", 88, "aten::linear")


@pytest.mark.parametrize(
    "width, text",
    [
        (80, "forward  /home/ada/run/src/model/layers.py:88  aten::linear"),
        (58, "forward  …/ada/run/src/model/layers.py:88  aten::linear"),
        (38, "forward  …/layers.py:88  aten::linear"),
        (37, "forward  …/layers.py:88  aten::linear"),
        (36, "forward  …/src/model/layers.py:88"),
        (30, "forward  …/model/layers.py:88"),
        (24, "forward  …/layers.py:88"),
        (20, "forwa…  layers.py:88"),
        (12, "for…  …py:88"),
    ],
)
def test_call_site_drops_the_least_important_part_first(width: int, text: str) -> None:
    assert fit.fit_place(PLACE, width) == text


def test_call_site_may_lack_its_function_or_line() -> None:
    assert fit.fit_place(Place(file="/a/b.py", line=0), 20) == "/a/b.py"
    assert fit.fit_place(Place(function="at::empty(long)"), 10) == "at::empty…"
    assert fit.fit_place(Place("f", "x.cpp", 0), 20) == "f  x.cpp"


@pytest.mark.parametrize("width", [20, 40, 100])
def test_source_line_takes_its_own_line(width: int) -> None:
    place = Place(
        "forward", "/home/ada/run/src/model/layers.py", 88, source="y = f(x)" + "\n+ 1" * 9
    )
    *named, source = fit.place_lines(place, width)
    assert named == fit.place_lines(Place(place.function, place.file, place.line), width)
    assert source.startswith("    > y = f(x)\\n"[:width])
    assert fit.cell_width(source) <= width
    # A sentence or a heading has no columns.
    assert fit.fit_place(place, 100) == "forward  /home/ada/run/src/model/layers.py:88"


def test_relative_paths_keep_their_file_name() -> None:
    assert fit.fit_path("train.py:63", 8) == "…n.py:63"
    assert fit.fit_path("run/train.py:63", 12) == "train.py:63"
    assert fit.fit_path("run/train.py:63", 13) == "…/train.py:63"


@given(st.text("/a\u0301\u540d", max_size=12), st.integers(1, 14))
def test_path_keeps_as_many_parts_as_fit(path: str, width: int) -> None:
    tails = [path] + ["\u2026" + path[i:] for i in range(1, len(path)) if path[i] == "/"]
    fitting = [tail for tail in tails if fit.cell_width(tail) <= width]
    name = fit.cut_left(path.rpartition("/")[2], width)
    assert fit.fit_path(path, width) == (fitting[0] if fitting else name)


def test_path_with_many_parts_takes_linear_time() -> None:
    begun = time.process_time()
    assert fit.fit_path("/" * 100_000 + "a.py", 8) == "\u2026///a.py"
    assert time.process_time() - begun < 1  # 0.00 s


def test_widths_count_terminal_cells() -> None:
    assert fit.cell_width("名前") == 4
    assert fit.cell_width("e\u0301") == 1
    assert fit.cut_right("名前名前", 5) == "名前…"
    assert fit.cut_left("名前名前", 5) == "…名前"


def test_wrap_keeps_a_number_with_its_unit() -> None:
    assert fit.wrap("there are 24.2 GiB in it", 14) == ["there are", "24.2 GiB in it"]
    assert fit.wrap("", 14) == [""]


UNIT = re.compile(r"(?<=\d) (?=(?:[KMGTPE]iB|B|us|s|min|h|UTC)\b)")


@given(st.lists(st.sampled_from([*"1a_ é²٣.,", "MiB", "s", "us", "B", "UTC", "1 s"])).map("".join))
def test_units_are_recognized_like_the_regular_expression(text: str) -> None:
    assert fit._tied(text) == UNIT.sub("\u00a0", text)


@given(
    st.builds(Place, st.text(), st.text(), st.integers(0, 10**6), st.text()), st.integers(8, 100)
)
def test_call_site_fits_the_width(place: Place, width: int) -> None:
    assert fit.cell_width(fit.fit_place(place, width)) <= width


@given(st.text(), st.integers(8, 60))
def test_wrapped_ascii_fits_the_width(text: str, width: int) -> None:
    ascii_text = clean(text).encode("ascii", "replace").decode()
    assert all(len(line) <= width for line in fit.wrap(ascii_text, width))


@pytest.mark.parametrize(
    "width, lines",
    [
        (50, ["scaled_dot_product_attention  …/transformer.py:27"]),
        (40, ["scaled_dot_product_attention", "    /home/ana/gpt/transformer.py:27"]),
        (30, ["scaled_dot_product_attention", "    …/gpt/transformer.py:27"]),
        (20, ["scaled_dot_product_…", "    …ansformer.py:27"]),
    ],
)
def test_narrow_call_site_takes_two_lines(width: int, lines: list[str]) -> None:
    place = Place("scaled_dot_product_attention", "/home/ana/gpt/transformer.py", 27)
    found = fit.place_lines(place, width)
    assert found == lines


def test_narrow_holder_is_cut_before_its_function() -> None:
    place = Place("held by losses[…] (list) in train()", "/home/ana/train.py", 10)
    assert fit.place_lines(place, 40)[0] == place.function
    assert fit.place_lines(place, 32) == [
        "held by losses[…] (list)",
        "    in train()  …/train.py:10",
    ]
    assert fit.place_lines(place, 20) == ["held by losses[…] (…", "    in t…  …in.py:10"]


@pytest.mark.parametrize(
    "place",
    [Place("f", "a.py", 1), Place("f"), Place(file="/a/b/" + "c" * 60), Place("f" * 60, note="n")],
)
def test_call_site_that_does_not_fit_two_lines_takes_one(place: Place) -> None:
    assert fit.place_lines(place, 30) == [fit.fit_place(place, 30)]


@given(
    st.builds(Place, st.text(), st.text(), st.integers(0, 10**6), st.text()), st.integers(12, 100)
)
def test_lines_of_a_call_site_fit_the_width(place: Place, width: int) -> None:
    assert max(map(fit.cell_width, fit.place_lines(place, width))) <= width


@pytest.mark.parametrize(
    "name, width, text",
    [
        ("a.py:1 > b.py:2 > :3", 20, "a.py:1 > b.py:2 > :3"),
        ("a.py:1 > b.py:2 > :3", 19, "… > b.py:2 > :3"),
        ("a.py:1 > b.py:2 > :3 > :4", 24, "… > b.py:2 > :3 > :4"),
        ("a.py > b.py:2 > :3 > :4", 22, "a.py > … > b.py:3 > :4"),
        ("a.py > b.py:2 > :3 > :4", 21, "a.py > … > b.py:4"),
        ("a_long_model.py:1 > b.py:2 > :3", 5, "…py:3"),
        ("model.layers.12.self_attn.q_proj", 28, "model.….12.self_attn.q_proj"),
        ("model.layers.12.self_attn.q_proj", 8, "….q_proj"),
        ("at::native::copy_(at::Tensor const&)", 20, "at::native::copy_(a…"),
    ],
)
def test_paths_through_a_model_keep_their_ends(name: str, width: int, text: str) -> None:
    assert fit.fit_place(Place(name), width) == text
    assert fit.cell_width(text) <= width


def test_path_with_many_modules_takes_linear_time() -> None:
    begun = time.process_time()
    assert fit.cut_name(" > ".join(["a.py:1"] + [":1"] * 100_000), 15) == "… > a.py:1 > :1"
    assert time.process_time() - begun < 1  # 0.02 s
