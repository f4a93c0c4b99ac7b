"""Run every code block in the documents, or check it.

test_project.py runs ```console blocks with a memreplay command and ```pycon blocks, line by line.
Here:

- memreplay commands in any other block are run too, with stand-ins for the files that they name. If
  that isn't possible, click parses them, so their options and values must exist.
- Python is run if it's complete. Otherwise it's compiled, and the names that it uses from memreplay
  must exist.
- SQL is run on the example's tables; TOML, YAML and shell are parsed.
- Everything else is listed in NOT_RUN, with a reason.
"""

from __future__ import annotations

import ast
import ensurepip
import glob
import gzip
import importlib
import importlib.util
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
from memreplay.dryrun.installing import INSTALL_IMPORTED, INSTALL_TORCH, REPLACE_TORCH
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

# Reasons why a block is neither run nor checked.
INSTALLS = "installs packages"
SCRIPTS = "runs what CI runs by itself; that there is such a target or script is checked"
DRAWING = "a drawing, and no code"
OUTPUT = "what was printed for a recording that is not shipped"
OTHERS = "other projects' programs"
AGENT = "what a server answers: tests of the command mcp ask"
# Each document's blocks that aren't run, by the start of their first line.
RECORDS = "the recorder needs PyTorch"
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
        "make map": SCRIPTS,
        "path, URL, bytes, file object": DRAWING,
        "[list, MARK, items …, new]": DRAWING,
    },
    "docs/dryrun.md": {"pip install --no-deps torch": INSTALLS},
    "docs/export.md": {"select t.name, max(c.value)": "is of Perfetto's own tables"},
    "docs/format.md": {"GLOBAL torch.jit._pickle": DRAWING},
    "docs/frameworks.md": {
        "export MEMREPLAY_OPTIONS": "sets a variable",
        "memreplay: out of memory": OUTPUT,
        "torchrun": OTHERS,
        "export VERL_USE_EXTERNAL_MODULES": "sets a variable",
        "VLLM_SERVER_DEV_MODE=1": OTHERS,
        "curl": OTHERS,
    },
    "docs/holders.md": {
        "14.3 GiB in use": RECORDS,
        "leaks a step": RECORDS,
        "bytes  share  count  held by": RECORDS,
        "not in use  pool": RECORDS,
        "pinned on the host": RECORDS,
    },
    "docs/mcp.md": {
        "> files": AGENT,
        "> leaks": AGENT,
    },
    "docs/notebooks.md": {"%%memreplay --model": "records a cell, and needs torch"},
    "docs/browser.md": {
        "import micropip": "runs in Pyodide: tests/web/test_micropip.py",
    },
    "docs/outside.md": {
        "pip install '.[nvml]'": INSTALLS,
        "device 0: 384.0 MiB request failed": "the recorder needs PyTorch",
        "host memory  this process uses 3.1 GiB": OUTPUT,
    },
    "docs/performance.md": {"make bench": SCRIPTS},
    "docs/pytest.md": {"FAIL peak held": OUTPUT},
    "docs/record.md": {
        "bytes  share  count": OUTPUT,
        "memreplay: out of memory": OUTPUT,
        "$ python train.py": "the recorder needs PyTorch",
    },
    "docs/watch.md": {"fake GPU Tesla T4": RECORDS},
    "docs/recording.md": {"gzip snap.pkl": OTHERS},
}

# Commands that are parsed but not run.
NOT_STARTED = {
    "record": "needs a GPU",
    "dryrun": "needs PyTorch's CUDA build",
    "explore": "needs a terminal",
    "mcp": "waits for an agent",
    "watch": "waits for files to come",
}
# Commands with these arguments are parsed but not run.
NOT_HERE = {
    "://": "needs a network, or a cluster",
    "--open": "opens a browser",
    "$f": "stands in a loop",
}
EXAMPLES = ROOT / "examples"
# Usage lines, which aren't run; their options and commands must exist.
USAGE = {"[OPTIONS]", "FILE", "BEFORE", "FOLDER"}
# Names that documents use for the reader's own files, and the example that stands in for each.
STAND_INS = {
    "snap.pkl": "leaky_training",
    "snap.pickle": "leaky_training",
    "before.pkl": "leaky_training",
    "after.pkl": "leaky_training",
    "main.pkl": "leaky_training",
    "new.pkl": "transformer_deeper",
    "rank0.pkl": "fsdp_ranks/rank0",
    "rank1.pkl": "fsdp_ranks/rank1",
    "memory.rank0.oom.pickle": "leaky_training",
    "memory.rank1.pickle": "fsdp_ranks/rank1",
}
# Errors due to a stand-in file; the command itself is right.
NOT_IN_IT = re.compile(
    r"no events in|: no device \d|has no annotation|has no pool|no allocation that|already exists"
    r"|no request failed|no allocation failed|no selected allocation contains"
)
# The reader's configuration file.
CONFIGURATION = "memreplay.toml"
# TOML keys that other programs read.
OTHERS_KEYS = {"mcp_servers", "experimental"}
FOLDERS = ("memory_snapshot", "dumps", "base_run", "new_run", "base", "new", "run", "runs")
# The folder with the run's dump, named as torchtitan names it.
DUMP = "iteration_10"


def commands() -> Iterator[Any]:
    """Return each command once."""
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
    """Return whether test_project.py runs this block."""
    if block.document == "CONTRIBUTING.md" or block.document.startswith("examples/"):
        return False
    shown = block.text.splitlines()
    return block.kind == "pycon" or (
        block.kind == "console" and any(line.startswith("$ memreplay") for line in shown)
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with all files that documents treat as the reader's own."""
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
    """Make a working folder with links to the files in `home`."""
    folder = tmp_path / "here"
    shutil.copytree(home, folder, copy_function=os.symlink)
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("words", list(commands()))
def test_commands_in_documents_run(words: list[str], here: Path) -> None:
    if words[0].startswith("-"):
        assert CliRunner().invoke(app, words).exit_code == 0
        return
    if "." in words[0]:  # a file as the only argument runs report
        words = ["report", *words]
    command = app.get_command(click.Context(app), words[0])
    assert command is not None, f"there is no command {words[0]}"
    if USAGE & {*words}:
        own = words[: words.index("--")] if "--" in words else words
        known = {name for param in command.params for name in param.opts}
        assert {word for word in own if word.startswith("-")} <= known
    elif not can_run(words):
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


def can_run(words: list[str]) -> bool:
    """Return whether a command can run here."""
    if words[0] in NOT_STARTED or "--" in words:  # programs need PyTorch
        return False
    return not any(one in word for one in NOT_HERE for word in words)


def expanded(word: str) -> list[str]:
    """Expand a word as a shell would, to the matching files or the word itself."""
    return sorted(glob.glob(word)) or [word]


# --- Python ---------------------------------------------------------------------------------------

# Python that runs unchanged from the documents, with `snap.pkl` in the working folder.
WHOLE = ("README.md", "docs/export.md", "docs/library.md", "docs/lines.md")
# All other Python needs torch, a GPU, or objects from the reader's program.
TAKES_MORE = re.compile(r"\btorch\b|\bmodel\b|\bcluster\b|\btrain\w*\(|Record\b")


@pytest.mark.parametrize("block", blocks("python"))
def test_python_in_documents_compiles_and_its_names_exist(block: Block) -> None:
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
def test_python_in_documents_runs(
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
    """Return the names that a program uses from memreplay, such as `record` or
    `snapshot.model.Frame`.
    """
    names = {"memreplay"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "memreplay":
                    names.add(one.asname or "memreplay")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memreplay"):
            yield from (f"{(node.module or '')[10:]}.{one.name}".lstrip(".") for one in node.names)
    names.add("mr")  # the name every document uses
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names:
            yield node.attr


def exists(name: str) -> bool:
    """Return whether memreplay has something with this name."""
    module, _, last = name.rpartition(".")
    if module.startswith("integrations."):  # imports the framework, which isn't installed here
        path = ROOT / "src" / "memreplay" / f"{module.replace('.', '/')}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        return any(getattr(node, "name", "") == last for node in tree.body)
    home = importlib.import_module(f"memreplay.{module}") if module else memreplay
    return hasattr(home, last)


def wrong_arguments(call: ast.Call) -> list[str]:
    """Return the unknown keywords in a memreplay call."""
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


def test_unknown_names_and_arguments_are_found() -> None:
    tree = ast.parse("import memreplay as m\nfrom memreplay.errors import Nothing\nm.peek(mr.peak)")
    assert [name for name in taken(tree) if not exists(name)] == ["errors.Nothing", "peek"]
    calls = (
        "mr.peak(s, top=1, tops=2)",
        "other.peak(tops=1)",
        "mr.gate(s, max_peak='1K', max_peek=2)",
    )
    found = [wrong_arguments(ast.parse(call, mode="eval").body) for call in calls]  # type: ignore[arg-type]
    assert found == [["tops"], [], ["max_peek"]]


# --- formats read by other programs -------------------------------------------------------------


@pytest.mark.parametrize("block", blocks("sql"))
def test_sql_in_documents_runs(block: Block, here: Path) -> None:
    pytest.importorskip("duckdb")
    if why_not(block):
        return
    # Tables with the names that a document reads from files.
    query = re.sub(r"'tables/(\w+)\.parquet'", r"\1", block.text)
    done = CliRunner().invoke(app, ["sql", "snap.pkl", query, "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) > 1


@pytest.mark.parametrize("block", blocks("toml"))
def test_toml_in_documents_is_a_valid_configuration(block: Block, here: Path) -> None:
    told = tomllib.loads(block.text)
    if {*told} & OTHERS_KEYS:
        return
    (here / "memreplay.toml").write_text(block.text, encoding="utf-8")
    done = CliRunner().invoke(
        app, ["gate", "snap.pkl", "--base", "ci/base.json", "--config", "memreplay.toml"]
    )
    assert "memreplay.toml: " not in done.output  # tomllib's errors start like this


@pytest.mark.parametrize("block", blocks("json"))
def test_json_in_documents_is_valid(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_yaml_in_documents_uses_existing_inputs(block: Block) -> None:
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
def test_shell_in_documents_is_valid(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, encoding="utf-8", check=True)


# --- blocks that aren't run -----------------------------------------------------------------------

# `ipython` blocks run in test_notebooks.py.
CHECKED = {"ipython", "json", "pycon", "python", "sql", "toml", "yaml"}


def why_not(block: Block) -> str:
    """Return the reason why a block isn't run; empty if it must be run."""
    reasons = NOT_RUN.get(block.document, {})
    return next((why for first, why in reasons.items() if block.first.startswith(first)), "")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_that_are_not_run_have_a_reason(document: str) -> None:
    named = {*NOT_RUN.get(document, {})}
    for block in (one for one in BLOCKS if one.document == document):
        checked = is_run_elsewhere(block) or block.kind in CHECKED or any(commands_of(block.text))
        # A signature or usage line in the generated reference.
        checked |= document.startswith("docs/reference/")
        assert checked or why_not(block), f"{where(block)}: run it, or say in NOT_RUN why not"
        named -= {first for first in named if block.first.startswith(first)}
    assert not named, "no longer exists"


@pytest.mark.parametrize("block", blocks("indented", "sh", "plain"))
def test_make_targets_and_scripts_exist(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in (line.partition("#")[0].split() for line in block.text.splitlines()):
        if words[:1] == ["make"]:
            assert re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE), words
        if words and re.match(r"(?:ci|bench)/", words[0]):
            assert (ROOT / words[0]).exists(), words


@pytest.mark.parametrize("document", ["README.md", "docs/dryrun.md"])
def test_documents_install_torch_as_the_errors_say(document: str) -> None:
    lines = [line.strip().removeprefix("$ ") for line in (ROOT / document).read_text().splitlines()]
    found = [line.partition("  #")[0].strip() for line in lines if line.startswith("pip install")]
    at = found.index(INSTALL_TORCH)
    assert found[at : at + 2] == [INSTALL_TORCH, INSTALL_IMPORTED]


@pytest.mark.parametrize("line", [INSTALL_TORCH, INSTALL_IMPORTED, REPLACE_TORCH])
def test_pip_accepts_the_lines_that_install_torch(line: str) -> None:
    """pip parses them, but may neither use the network nor install anything."""
    pip, *words = line.split()
    assert (pip, words[0]) == ("pip", "install")
    run = ["-m", "pip"]
    if importlib.util.find_spec("pip") is None:  # in an environment without it, Python's own
        run = [f"{next(Path(ensurepip.__file__).parent.glob('_bundled/pip-*.whl'))}/pip"]
    done = subprocess.run(
        [sys.executable, *run, "--isolated", *words, "--dry-run", "--no-index", "-I"],
        capture_output=True,
        text=True,
        check=False,
    )
    missing = re.findall(r"No matching distribution found for (\S+)", done.stderr)
    assert (done.returncode, len(missing)) == (1, 1), done.stderr
    assert missing[0] in words


def test_lines_that_install_torch_are_complete() -> None:
    """ci/truth runs torch with these packages only, and those that they need."""
    pinned = (ROOT / "ci/truth-newest.txt").read_text().splitlines()
    tested = {line.partition("==")[0] for line in pinned if not line.startswith("#")}
    installed = {*INSTALL_TORCH.split()[3:], *INSTALL_IMPORTED.split()[2:]}
    assert tested - {"markupsafe", "mpmath"} <= installed  # needed by jinja2 and sympy
