"""Every code block of the documents is run, or checked and named here with why it cannot be run.

test_project.py runs ```console blocks with a memreplay command and ```pycon blocks, line by line.
Here:

- a memreplay command in any other block is run too, on stand-ins for the files that it names; where
  that cannot be, click parses it, so its options and what they take exist;
- Python is run where it is whole, else compiled, and what it takes from memreplay is looked up;
- SQL is run over the example's tables; TOML, YAML and shell are parsed;
- what is none of this is in NOT_RUN, with a reason.
"""

from __future__ import annotations

import ast
import glob
import gzip
import importlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

import memreplay
from memreplay.analysis.comparing.budgets import BudgetOptions
from memreplay.commands.app import app
from tests.blocks import Block, blocks_of, commands_of
from tests.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
)
BLOCKS = [block for name in DOCUMENTS for block in blocks_of(ROOT / name, name)]

# Why a block is neither run nor checked.
INSTALLS = "installs packages"
SCRIPTS = "runs what CI runs by itself; that there is such a target or script is checked"
DRAWING = "a drawing, and no code"
OUTPUT = "what was printed for a recording that is not shipped"
OTHERS = "programs of others"
AGENT = "what a server answers: tests of the command mcp ask"
# Of each document the blocks that are not run, by how their first line begins.
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {"pip install .": INSTALLS, "make test": SCRIPTS},
    "CONTRIBUTING.md": {
        "make demo": SCRIPTS,
        ".venv/bin/python -m pytest": SCRIPTS,
        "ci/wheels": SCRIPTS,
        "ci/cross": SCRIPTS,
        "ci/viewers": SCRIPTS,
        "ci/truth": SCRIPTS,
        "python -m tests.truth --python python3 --gpu": "needs a GPU",
        "make fuzz": SCRIPTS,
        "make faults": SCRIPTS,
        "make mutants": SCRIPTS,
    },
    "docs/architecture.md": {
        "bytes ─io→ window": DRAWING,
        "make map": SCRIPTS,
        "errors": DRAWING,
    },
    "docs/engine.md": {
        "path, URL, bytes, file object": DRAWING,
        "[list, MARK, items …, new]": DRAWING,
    },
    "docs/dryrun.md": {"pip install --no-deps torch": INSTALLS},
    "docs/export.md": {"select t.name, max(c.value)": "is of Perfetto's own tables"},
    "docs/format.md": {"GLOBAL torch.jit._pickle": DRAWING},
    "docs/library.md": {"pip install .": INSTALLS},
    "docs/mcp.md": {
        "> files": AGENT,
        "> leaks": AGENT,
    },
    "docs/notebooks.md": {"%%memreplay --model": "records a cell, and needs torch"},
    "docs/performance.md": {"make bench": SCRIPTS},
    "docs/pytest.md": {"FAIL peak held": OUTPUT},
    "docs/record.md": {"bytes  share  count": OUTPUT},
    "docs/recording.md": {"gzip snap.pkl": OTHERS},
}

# Commands that are parsed and not run.
NOT_STARTED = {
    "record": "needs a GPU",
    "dryrun": "needs PyTorch's CUDA build",
    "explore": "needs a terminal",
    "mcp": "waits for an agent",
    "watch": "waits for files to come",
}
# Arguments with which a command is parsed and not run.
NOT_HERE = {
    "://": "needs a network, or a cluster",
    "--open": "opens a browser",
    "$f": "stands in a loop",
}
EXAMPLES = ROOT / "examples"
# What stands in a usage line: its options exist, and the command does.
USAGE = {"[OPTIONS]", "FILE", "BEFORE", "FOLDER"}
# What documents call the reader's own files, and which example stands in for each.
STAND_INS = {
    "snap.pkl": "leaky_training",
    "snap.pickle": "leaky_training",
    "before.pkl": "leaky_training",
    "after.pkl": "leaky_training",
    "main.pkl": "leaky_training",
    "new.pkl": "transformer_deeper",
    "rank0.pkl": "fsdp_ranks/rank0",
    "rank1.pkl": "fsdp_ranks/rank1",
}
# What a stand-in is told to lack, or is in the way of: the command itself was right.
NOT_IN_IT = re.compile(
    r"no events in|: no device \d|has no annotation|has no pool|no allocation that|already exists"
    r"|no request failed"
)
# The reader's configuration.
CONFIGURATION = "memreplay.toml"
# Keys of TOML that other programs read.
OTHERS_KEYS = {"mcp_servers"}
FOLDERS = ("memory_snapshot", "dumps", "base_run", "new_run", "base", "new", "run", "runs")
# The folder of the run's dump, as torchtitan names them.
DUMP = "iteration_10"


def commands() -> Iterator[Any]:
    """Each command once, wherever it stands."""
    seen = set()
    for block in BLOCKS:
        if not is_run_elsewhere(block):
            for words in commands_of(block.text):
                if tuple(words) not in seen:
                    seen.add(tuple(words))
                    yield pytest.param(words, id=f"{where(block)}: {' '.join(words)}")


def blocks(*kinds: str) -> list[Any]:
    return [pytest.param(block, id=where(block)) for block in BLOCKS if block.kind in kinds]


def block_of(document: str, kind: str) -> Block:
    return next(one for one in BLOCKS if one.document == document and one.kind == kind)


def where(block: Block) -> str:
    return f"{block.document}:{block.line}"


def is_run_elsewhere(block: Block) -> bool:
    """Whether test_project.py runs it."""
    if block.document == "CONTRIBUTING.md" or block.document.startswith("examples/"):
        return False
    shown = block.text.splitlines()
    return block.kind == "pycon" or (
        block.kind == "console" and any(line.startswith("$ memreplay") for line in shown)
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that documents name as the reader's own."""
    folder = tmp_path_factory.mktemp("home")
    for name, example in STAND_INS.items():
        packed = EXAMPLES / f"{example}.pkl.gz"
        (folder / f"{name}.gz").write_bytes(packed.read_bytes())
        (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
    for name in FOLDERS:
        (folder / name).mkdir()
        for rank in range(2):
            ending = ".pkl.gz" if name == "runs" else ".pkl"
            dump = folder / name / (DUMP if name in ("run", "memory_snapshot") else "")
            dump.mkdir(exist_ok=True)
            shutil.copy(folder / f"rank{rank}{ending}", dump)
    (folder / "ci" / "bases").mkdir(parents=True)
    base = memreplay.to_json(memreplay.baseline(memreplay.open(folder / "rank0.pkl")))
    for name in ("base.json", "bases/rank0.json", "bases/rank1.json"):
        (folder / "ci" / name).write_text(base, encoding="utf-8")
    return folder


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: what is in `home`, linked to."""
    folder = tmp_path / "here"
    shutil.copytree(home, folder, copy_function=os.symlink)
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_of_a_document_runs(words: list[str], here: Path) -> None:
    if words[0].startswith("-"):
        assert CliRunner().invoke(app, words).exit_code == 0
        return
    if words[0] == "snap.pkl":  # a file alone is reported on
        words = ["report", *words]
    command = app.get_command(click.Context(app), words[0])
    assert command is not None, f"there is no command {words[0]}"
    if USAGE & {*words}:
        own = words[: words.index("--")] if "--" in words else words
        known = {name for param in command.params for name in param.opts}
        assert {word for word in own if word.startswith("-")} <= known
    elif words[0] in NOT_STARTED or any(one in word for one in NOT_HERE for word in words):
        command.make_context(words[0], words[1:])
    else:
        if CONFIGURATION in words:
            told = block_of("docs/categories.md", "toml").text + '\n[[gate]]\nmax_peak = "38GiB"\n'
            (here / CONFIGURATION).write_text(told, encoding="utf-8")
        asked = [one for word in words for one in expanded(word)]
        given = b"select 1" if words[0] == "sql" else (here / "snap.pkl").read_bytes()
        done = CliRunner().invoke(app, asked, input=given)
        fine = done.exit_code in (0, 1, 5) or (
            done.exit_code == 2 and NOT_IN_IT.search(done.output)
        )
        assert fine, f"memreplay {' '.join(words)}\n{done.output}"


def expanded(word: str) -> list[str]:
    """As a shell has it: the files that a pattern means, else the word."""
    return sorted(glob.glob(word)) or [word]


# --- Python ---------------------------------------------------------------------------------------

# What runs as it stands in the documents; with `snap.pkl` in the working folder.
WHOLE = ("README.md", "docs/export.md", "docs/library.md", "docs/lines.md")
# The rest needs torch, a GPU, or what a reader's program has.
TAKES_MORE = re.compile(r"\btorch\b|\bmodel\b|\bcluster\b|\btrain\w*\(|Record\b")


@pytest.mark.parametrize("block", blocks("python"))
def test_python_of_a_document_compiles_and_its_names_exist(block: Block) -> None:
    tree = ast.parse(block.text)
    missing = [text for text in taken(tree) if not exists(text)]
    assert not missing, f"memreplay has no {', '.join(missing)}"
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        wrong = wrong_arguments(call)
        assert not wrong, f"{ast.unparse(call.func)} has no argument {', '.join(wrong)}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=where(block))
        for block in BLOCKS
        if block.kind == "python" and block.document in WHOLE and not TAKES_MORE.search(block.text)
    ],
)
def test_python_of_a_document_runs(
    block: Block, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("duckdb", "polars", "pyarrow"):
        if module in block.text:
            pytest.importorskip(module)
    lines = (
        CliRunner().invoke(app, ["export", "snap.pkl", "--to", "500", "--format", "ndjson"]).output
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    namespace: dict[str, Any] = {"mr": memreplay}
    exec(compile(block.text, where(block), "exec"), namespace)


def taken(tree: ast.AST) -> Iterator[str]:
    """What a program takes from memreplay: `record`, `snapshot.model.Frame`."""
    names = {"memreplay"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "memreplay":
                    names.add(one.asname or "memreplay")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memreplay"):
            yield from (f"{(node.module or '')[10:]}.{one.name}".lstrip(".") for one in node.names)
    names.add("mr")  # as every document calls it
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names:
            yield node.attr


def exists(name: str) -> bool:
    """Whether memreplay has something of this name."""
    module, _, last = name.rpartition(".")
    home = importlib.import_module(f"memreplay.{module}") if module else memreplay
    return hasattr(home, last)


def wrong_arguments(call: ast.Call) -> list[str]:
    """The keywords of a call of memreplay's that it does not have."""
    target = call.func
    if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
        return []
    if target.value.id not in ("memreplay", "mr"):
        return []
    parameters = inspect.signature(getattr(memreplay, target.attr)).parameters
    known = {*parameters, *memreplay.Selection.__struct_fields__}
    if target.attr == "gate":
        known |= set(BudgetOptions.__struct_fields__)
    return [one.arg for one in call.keywords if one.arg is not None and one.arg not in known]


def test_a_name_or_an_argument_that_is_not_there_is_found() -> None:
    tree = ast.parse("import memreplay as m\nfrom memreplay.errors import Nothing\nm.peek(mr.peak)")
    assert [name for name in taken(tree) if not exists(name)] == ["errors.Nothing", "peek"]
    calls = (
        "mr.peak(s, top=1, tops=2)",
        "other.peak(tops=1)",
        "mr.gate(s, max_peak='1K', max_peek=2)",
    )
    found = [wrong_arguments(ast.parse(call, mode="eval").body) for call in calls]  # type: ignore[arg-type]
    assert found == [["tops"], [], ["max_peek"]]


# --- what others read -----------------------------------------------------------------------------


@pytest.mark.parametrize("block", blocks("sql"))
def test_sql_of_a_document_answers(block: Block, here: Path) -> None:
    pytest.importorskip("duckdb")
    if why_not(block):
        return
    # Where a document reads files, those are the tables of the same name.
    query = re.sub(r"'tables/(\w+)\.parquet'", r"\1", block.text)
    done = CliRunner().invoke(app, ["sql", "snap.pkl", query, "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) > 1


@pytest.mark.parametrize("block", blocks("toml"))
def test_toml_of_a_document_is_a_configuration(block: Block, here: Path) -> None:
    told = tomllib.loads(block.text)
    if {*told} & OTHERS_KEYS:
        return
    (here / "memreplay.toml").write_text(block.text, encoding="utf-8")
    done = CliRunner().invoke(app, ["gate", "snap.pkl", "--base", "ci/base.json"])
    assert "memreplay.toml: " not in done.output  # what is wrong with it


@pytest.mark.parametrize("block", blocks("json"))
def test_json_of_a_document_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_yaml_of_a_document_asks_what_there_is(block: Block) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    found = yaml.safe_load(block.text)
    for step in found if isinstance(found, list) else []:
        if "uses" in step:
            assert set(step["with"]) <= set(action["inputs"])
    if "repos" in found:
        ids = {hook["id"] for repo in found["repos"] for hook in repo["hooks"]}
        assert ids <= {hook["id"] for hook in hooks}


@pytest.mark.parametrize("block", blocks("sh", "bash"))
def test_shell_of_a_document_is_shell(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, encoding="utf-8", check=True)


# --- what is not run ------------------------------------------------------------------------------

# `ipython`: test_notebooks.py runs those.
CHECKED = {"ipython", "json", "pycon", "python", "sql", "toml", "yaml"}


def why_not(block: Block) -> str:
    """Why a block is not run; empty where it must be."""
    reasons = NOT_RUN.get(block.document, {})
    return next((why for first, why in reasons.items() if block.first.startswith(first)), "")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_is_not_run_is_named_with_a_reason(document: str) -> None:
    named = {*NOT_RUN.get(document, {})}
    for block in (one for one in BLOCKS if one.document == document):
        checked = is_run_elsewhere(block) or block.kind in CHECKED or any(commands_of(block.text))
        # A signature or a usage line of the reference, which is made of what there is.
        checked |= document.startswith("docs/reference/")
        assert checked or why_not(block), f"{where(block)}: run it, or say in NOT_RUN why not"
        named -= {first for first in named if block.first.startswith(first)}
    assert not named, "is not there any more"


@pytest.mark.parametrize("block", blocks("indented", "sh", "plain"))
def test_targets_and_scripts_are_there(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in (line.partition("#")[0].split() for line in block.text.splitlines()):
        if words[:1] == ["make"]:
            assert re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE), words
        if words and re.match(r"(?:ci|bench)/", words[0]):
            assert (ROOT / words[0]).exists(), words
