"""names: which files are snapshots by their names, and in what order."""

from __future__ import annotations

from memreplay.io.names import bare, natural, snapshot_names


def test_snapshots_by_their_name() -> None:
    names = ["rank0.pkl", "notes.txt", "rank1.pickle.ZST", "a.pkl.part", "trace.json", "x.pkl\n"]
    assert snapshot_names(names) == ["rank0.pkl", "rank1.pickle.ZST"]
    assert snapshot_names(["rank0.json", "rank1.json.gz", "x.log"]) == [
        "rank0.json",
        "rank1.json.gz",
    ]
    assert snapshot_names(["a.log", "pkl"]) == []


def test_natural_order() -> None:
    names = ["rank10.pkl", "rank2.pkl", "rank2", "10", "9", "a", ""]
    assert sorted(names, key=natural) == ["", "9", "10", "a", "rank2", "rank2.pkl", "rank10.pkl"]
    digits = "9" * 5000  # that Python does not read as one number
    assert sorted([digits, "10", "9"], key=natural) == ["9", "10", digits]


def test_a_name_without_its_form() -> None:
    names = ["step_1/rank3.pkl.bz2", "rank3.JSON.zst", "rank3.7z", "rank3.gz"]
    assert [bare(name) for name in names] == ["step_1/rank3", "rank3", "rank3.7z", "rank3.gz"]
