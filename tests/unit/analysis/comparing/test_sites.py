"""sites: finding functions and files that were moved or renamed."""

from __future__ import annotations

import pytest

from memreplay.analysis.comparing.sites import Site, align_paths, same_sites, unnumbered


def names(
    base: list[Site], new: list[Site], callers: dict[Site, set[Site]] | None = None
) -> tuple[dict[Site, Site], dict[Site, Site]]:
    calls = callers or {}
    ours, theirs = ({site: calls.get(site, set()) for site in side} for side in (base, new))
    return same_sites(base, new, lambda: (ours, theirs))


def same(base: list[Site], new: list[Site], callers: dict[Site, set[Site]] | None = None) -> bool:
    """Return whether each frame on either side has the same name as its counterpart."""
    ours, theirs = names(base, new, callers)
    return [ours[site] for site in base] == [theirs[site] for site in new]


def test_roots_are_found_by_majority() -> None:
    base = {"/a/x/m.py", "/a/x/n.py", "/a/y/m.py", "/a/same.py"}
    new = {"/b/x/m.py", "/b/x/n.py", "/b/y/m.py", "/a/same.py"}
    assert align_paths(base, new) == {
        "/b/x/m.py": "/a/x/m.py",
        "/b/x/n.py": "/a/x/n.py",
        "/b/y/m.py": "/a/y/m.py",
    }
    assert align_paths({"/r/a.py", "??"}, {"/r/b.py", ""}) == {}
    old = {"/env/lib/python3.10/site-packages/torch/nn/modules/linear.py", "/me/linear.py"}
    now = {"/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py"}
    (path,) = now
    assert align_paths(old, now)[path].startswith("/env")


def test_windows_paths_match_paths_elsewhere() -> None:
    old, new = "C:\\Users\\a\\gpt\\m.py", "D:\\ci\\gpt\\m.py"
    assert align_paths({old}, {new, "D:\\ci\\o.py"}) == {new: old}
    assert align_paths({old}, {"/ci/gpt/m.py"}) == {"/ci/gpt/m.py": old}


@pytest.mark.parametrize(
    "base, new",
    [
        ("/tmp/torchinductor_ana/ab/cabxyz.py", "/tmp/torchinductor_bob/zz/czzabc.py"),
        ("<eval_with_key>.3", "<eval_with_key>.17"),
        ("<ipython-input-3-0a1b2c>", "<ipython-input-9-ffff00>"),
        ("/tmp/ipykernel_31/9.py", "/tmp/ipykernel_977/9.py"),
    ],
)
def test_numbers_in_generated_names_are_ignored(base: str, new: str) -> None:
    assert unnumbered(base) == unnumbered(new) != base
    assert same([(base, "call"), ("m.py", "f")], [(new, "call"), ("m.py", "f")])


@pytest.mark.parametrize("file", ["/r/m.py", "/torchinductor/m.py", "<eval>", ""])
def test_other_files_keep_their_names(file: str) -> None:
    assert unnumbered(file) == file


def test_functions_match_if_one_side_lacks_class_names() -> None:
    plain, full = [("m.py", "forward")], [("m.py", "Block.forward")]
    assert same(plain, full)
    assert same(full, plain)
    # If both sides have class names, methods of two classes are two functions. C++ names have no
    # classes.
    classes: list[Site] = [("m.py", "A.f"), ("m.py", "B.f")]
    ours, theirs = names(classes, classes)
    assert len(set(ours.values())) == len(set(theirs.values())) == 2
    cold: list[Site] = [("??", "run.cold"), ("m.py", "f")]
    ours, _ = names(cold, [("m.py", "f")])
    assert ours["??", "run.cold"] == ("??", "run.cold")


def test_moved_and_renamed_functions_match() -> None:
    # A function moved to another file, a renamed function, and a renamed file.
    assert same([("m.py", "f"), ("m.py", "g")], [("o.py", "f"), ("m.py", "g")])
    assert same([("m.py", "f"), ("m.py", "g")], [("m.py", "h"), ("m.py", "g")])
    base: list[Site] = [("m.py", "f"), ("m.py", "g"), ("o.py", "f"), ("o.py", "k")]
    new: list[Site] = [("n.py", "f"), ("n.py", "g"), ("o.py", "f"), ("o.py", "k")]
    assert same(base, new)
    # Files that differ in most functions are different files.
    ours, theirs = names(
        [("a.py", "f"), ("a.py", "g"), ("a.py", "h")], [("b.py", "x"), ("b.py", "y"), ("b.py", "h")]
    )
    assert theirs["b.py", "x"] == ("b.py", "x")
    assert theirs["b.py", "h"] == ours["a.py", "h"]


def test_callers_identify_renamed_functions() -> None:
    callers: dict[Site, set[Site]] = {
        ("m.py", "a"): {("m.py", "f")},
        ("m.py", "x"): {("m.py", "f")},
        ("m.py", "b"): {("m.py", "g")},
        ("m.py", "y"): {("m.py", "g")},
    }
    both: list[Site] = [("m.py", "f"), ("m.py", "g")]
    base: list[Site] = [*both, ("m.py", "a"), ("m.py", "b")]
    new: list[Site] = [*both, ("m.py", "x"), ("m.py", "y")]
    assert same(base, new, callers)
    assert not same(base, new)


def test_frames_without_file_or_function_are_not_guessed() -> None:
    assert not same([("", "f")], [("", "g")])
    assert not same([("a.py", "")], [("b.py", "")])


def test_number_of_equal_file_names_is_limited() -> None:
    def under(root: str) -> set[str]:
        return {f"/{root}/{i}/__init__.py" for i in range(1000)}

    assert len(align_paths(under("a"), under("b"))) <= 64
