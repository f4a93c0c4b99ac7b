"""Tests of export/page/files.py: the names of files on the page."""

from __future__ import annotations

from time import process_time

import pytest

import memreplay as mr
from memreplay.export.page.building import page_data
from memreplay.export.page.files import common_folder, file_names, short_name
from memreplay.export.page.texts import Texts
from tests.conftest import ROOT


@pytest.mark.parametrize(
    "files, folder",
    [
        ([], ""),
        (["train.py", "<string>"], ""),
        (["/train.py", "/tmp.py"], ""),
        (["/w/chat/model.py"], "/w/chat/"),
        (["/w/chat/model.py", "/w/chat/parts/kv.py"], "/w/chat/"),
        (["/w/chat/a.py", "/w/chatty/b.py"], "/w/"),
        # The folder with most files counts.
        (["/w/chat/a.py", "/w/chat/b.py", "/root/start.py"], "/w/chat/"),
        (["/tmp/ipykernel_9/1.py", "/w/chat/a.py"], "/w/chat/"),
        (["/tmp/ipykernel_9/1.py"], ""),
        ([r"D:\dev\gpt\a.py", r"D:\dev\gpt\parts\b.py"], "D:\\dev\\gpt\\"),
    ],
)
def test_common_folder(files: list[str], folder: str) -> None:
    assert common_folder(files) == folder


@pytest.mark.parametrize(
    "file, name",
    [
        ("/w/chat/parts/kv.py", "parts/kv.py"),
        ("/w/other.py", "/w/other.py"),
        ("/v/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/w/chat/.venv/lib/python3.11/site-packages/peft/tuners.py", "peft/tuners.py"),
        ("/v/lib/python3.11/threading.py", "threading.py"),
        (r"C:\v\Lib\site-packages\torch\_tensor.py", r"torch\_tensor.py"),
        ("/tmp/ipykernel_9/3105878423.py", "cell 3105878423"),
        ("<ipython-input-5-abc>", "In [5]"),
    ],
)
def test_short_name(file: str, name: str) -> None:
    assert short_name(file, "/w/chat/") == name


def test_long_names_take_linear_time() -> None:
    path = "/" + 1_000_000 * "x"
    began = process_time()
    assert short_name(path, "/w/") == path
    assert process_time() - began < 1


def test_all_files_have_a_name() -> None:
    texts = Texts()
    found = file_names(["/w/a.py", "", "/v/b.py"], ["/w/a.py"], texts)
    named = {texts.all()[file]: texts.all()[name] for file, name in found.names}
    assert (found.folder, named) == ("/w/", {"/w/a.py": "a.py", "/v/b.py": "/v/b.py"})


def test_the_parts_of_a_label_make_the_label() -> None:
    """A page names code by the same parts as `memreplay peak`."""
    data, _ = page_data(mr.open(ROOT / "examples/transformer_step.pkl.gz"))
    assert data.folder == "/workspace/gpt/"
    lines = {line for one in data.devices[0].groups for lines in one.lines for line in lines}
    assert {parts[0] for parts in data.code} <= lines
    assert len(data.code) > 50
    for text, line, *parts in data.code:
        file, function, note = (data.texts[one] for one in parts)
        where = f"{file}:{line}" if line else file
        assert data.texts[text] == "  ".join(filter(None, (function, where, note)))
