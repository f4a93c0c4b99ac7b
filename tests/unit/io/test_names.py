"""names: recognizing a snapshot by its file name, and the order of names."""

from __future__ import annotations

from memreplay.io.names import bare, natural, snapshot_names


def test_snapshots_are_recognized_by_name() -> None:
    names = ["rank0.pkl", "notes.txt", "rank1.pickle.ZST", "a.pkl.part", "trace.json", "x.pkl\n"]
    assert snapshot_names(names) == ["rank0.pkl", "rank1.pickle.ZST"]
    assert snapshot_names(["rank0.json", "rank1.json.gz", "x.log"]) == [
        "rank0.json",
        "rank1.json.gz",
    ]
    assert snapshot_names(["a.log", "pkl"]) == []


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["rank10.pkl", "rank2.pkl", "rank2", "10", "9", "a", ""]
    assert sorted(names, key=natural) == ["", "9", "10", "a", "rank2", "rank2.pkl", "rank10.pkl"]
    digits = "9" * 5000  # Python doesn't read this as one number
    assert sorted([digits, "10", "9"], key=natural) == ["9", "10", digits]


def test_bare_name_lacks_the_snapshot_suffixes() -> None:
    names = ["step_1/rank3.pkl.bz2", "rank3.JSON.zst", "rank3.7z", "rank3.gz"]
    assert [bare(name) for name in names] == ["step_1/rank3", "rank3", "rank3.7z", "rank3.gz"]
