"""Check the project's own promises: the version is the same everywhere, and commands and links in
documents work.

A ```console block with a `$ memreplay …` command is run from top to bottom as one shell session, in
a folder that has only `examples/`. Each line shown under a command must be a line of its output;
`…` stands for any text and, on a line of its own, for any lines. A command must exit with 0, unless
the next command is `$ echo $?`. A document's ```pycon blocks are one Python session, which must
print what the document shows.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import memreplay

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()
]

CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
PYCON = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)")


class Step(NamedTuple):
    """A command in a console block, and the lines shown under it."""

    command: str
    shown: list[str]


def console_blocks(text: str) -> Iterator[list[Step]]:
    """Return the console blocks that have a memreplay command, as lists of steps."""
    for block in CONSOLE.findall(text):
        steps: list[Step] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], []))
            elif steps and not steps[-1].shown and steps[-1].command.endswith("\\"):
                steps[-1] = Step(f"{steps[-1].command}\n{line}", [])
            elif steps:
                steps[-1].shown.append(line.rstrip())
        if any(step.command.startswith("memreplay") for step in steps):
            yield steps


def missing_lines(shown: list[str], output: str) -> list[str]:
    """Return the shown lines that aren't in the output; blank lines and `...` match anything."""
    printed = [line.rstrip() for line in output.splitlines()]
    missing = []
    for line in shown:
        if line.strip() in ("", "…", "..."):
            continue
        pattern = re.compile(re.escape(line).replace("…", ".*"))
        if not any(pattern.fullmatch(candidate) for candidate in printed):
            missing.append(line)
    return missing


def run_block(steps: list[Step], folder: Path) -> Iterator[tuple[Step, str, int]]:
    """Run a block in one bash; return each step with its output (stdout and stderr together) and
    exit code.
    """
    mark = "=== end of a step:"
    script = [
        f'memreplay() {{ {shlex.quote(sys.executable)} -m memreplay "$@"; }}',
        # At the start of a step, `$?` is the previous step's exit code, as in a terminal.
        'end_step() { local code=$?; printf "\\n%s %s\\n" "$1" "$code"; return "$code"; }',
    ]
    for step in steps:
        script += [step.command, f"end_step {shlex.quote(mark)}"]
    environment = os.environ | {
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        check=False,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    pieces = re.split(rf"\n{mark} (\d+)\n", done.stdout)
    assert len(pieces) == 2 * len(steps) + 1, f"bash stopped early:\n{done.stdout}"
    for step, output, code in zip(steps, pieces[::2], pieces[1::2], strict=False):
        yield step, output, int(code)


def failures(steps: list[Step], folder: Path) -> list[str]:
    """Return a block's errors: one string per step that failed or printed anything else."""
    found = []
    results = list(run_block(steps, folder))
    following = [step.command for step, _, _ in results[1:]] + [""]
    for (step, output, code), then in zip(results, following, strict=True):
        missing = missing_lines(step.shown, output)
        if code and then != "echo $?":
            found.append(f"$ {step.command}\nended with {code}:\n{output}")
        elif missing:
            lines = "\n".join(missing)
            found.append(f"$ {step.command}\ndid not print:\n{lines}\nbut:\n{output}")
    return found


# --- version -------------------------------------------------------------------------------------


def test_version_is_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'^version = "([^"]+)"$', project, re.MULTILINE)
    assert match, "pyproject.toml has no static version"
    version = match[1]
    assert memreplay.__version__ == version
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE)


def test_command_prints_the_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "--version"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert memreplay.__version__ in done.stdout


# --- documents -----------------------------------------------------------------------------------


def test_readme_shows_a_command() -> None:
    readme = ROOT / "README.md"
    assert readme.exists()
    assert list(console_blocks(readme.read_text(encoding="utf-8"))), (
        "README.md has no ```console block with a `$ memreplay` command"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "document, steps",
    [
        pytest.param(path, steps, id=f"{path.relative_to(ROOT)}:{number}")
        for path in DOCUMENTS
        for number, steps in enumerate(console_blocks(path.read_text(encoding="utf-8")), 1)
    ],
)
def test_output_of_commands_matches_the_document(
    document: Path, steps: list[Step], tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    found = failures(steps, tmp_path)
    assert not found, "\n".join(found)


def wrong_examples(text: str, name: str = "") -> str:
    """Return the differences between the output that a document's Python shows and its actual
    output; empty if there are none.
    """
    blocks = "\n".join(PYCON.findall(text))
    test = doctest.DocTestParser().get_doctest(blocks, {}, name, name, 0)
    found: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=found.append)
    return "".join(found)


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if PYCON.search(path.read_text(encoding="utf-8"))],
    ids=lambda path: path.name,
)
def test_output_of_python_matches_the_document(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy", "2.2")  # the modules whose reprs are shown
    # Run in a separate folder, so that files named in the documents don't collide with others.
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    wrong = wrong_examples(document.read_text(encoding="utf-8"), document.name)
    assert not wrong, wrong


def test_library_page_has_python_to_run() -> None:
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert len(PYCON.findall(text)) >= 20


@pytest.mark.parametrize(
    "document",
    [
        *DOCUMENTS,
        *(
            ROOT / name
            for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
            if (ROOT / name).exists()
        ),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_relative_links_resolve(document: Path) -> None:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    generated = {ROOT / "docs" / "reference" / name for name in ("json.md", "python.md")}
    targets = {link: (document.parent / link).resolve() for link in LINK.findall(text)}
    broken = [link for link, path in targets.items() if path not in generated and not path.exists()]
    assert not broken


@pytest.mark.parametrize("page", DOCUMENTS[1:], ids=lambda path: path.name)
def test_every_page_starts_with_the_question_it_answers(page: Path) -> None:
    title, question, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert re.fullmatch(r"\*[^*]+\?\*", question), question


def test_images_are_small_and_used() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
    for picture in (ROOT / "docs" / "images").iterdir():
        # Pages are drawn at twice the resolution.
        most = 160_000 if picture.suffix == ".webp" else 60_000
        assert picture.stat().st_size < most, picture
        assert any(
            f"]({os.path.relpath(picture, path.parent)})" in text for path, text in texts.items()
        ), f"no document shows {picture}"


# --- the checker itself --------------------------------------------------------------------------

BLOCKS = """
```console
$ memreplay --version
memreplay, version …
$ ls a \\
     b
a
```
```console
$ pip install memreplay
```
"""


def test_console_blocks_are_parsed() -> None:
    assert list(console_blocks(BLOCKS)) == [
        [
            Step("memreplay --version", ["memreplay, version …"]),
            Step("ls a \\\n     b", ["a"]),
        ]
    ]


def test_output_lines_are_compared_with_wildcards() -> None:
    output = "peak  12 MiB  \nread in 0.3 s\n\nend [1]\n"
    assert missing_lines(["peak  12 MiB", "…", "read in … s", "", "...", "end [1]"], output) == []
    assert missing_lines(["peak  13 MiB", "read in … m", "end"], output) == [
        "peak  13 MiB",
        "read in … m",
        "end",
    ]


def test_python_with_different_output_is_reported() -> None:
    text = "```pycon\n>>> a = 1\n```\n```pycon\n>>> a + {}\n2\n```\n"
    assert wrong_examples(text.format(1)) == ""
    assert "Got:\n    3" in wrong_examples(text.format(2))


def test_failing_block_is_reported(tmp_path: Path) -> None:
    right = [Step("printf 'a\\nb'", ["b"]), Step("(exit 3)", []), Step("echo $?", ["3"])]
    assert failures(right, tmp_path) == []
    wrong = [Step("echo a", ["b"]), Step("(exit 3)", []), Step("echo c", ["c"])]
    printed, ended = failures(wrong, tmp_path)
    assert "did not print:\nb" in printed
    assert "ended with 3" in ended
