"""Run action.yml as GitHub's runner does: its script in bash, with the inputs in the
environment.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

pytestmark = pytest.mark.slow
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEP: dict[str, Any] = next(one for one in ACTION["runs"]["steps"] if one.get("id") == "gate")
EXPRESSION = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
EXAMPLE = str(ROOT / "tests/data" / "transformer_step.pkl.gz")
DEEPER = str(ROOT / "tests/data" / "transformer_deeper.pkl.gz")


class Ran(NamedTuple):
    """The step's outcome."""

    code: int
    stdout: str
    stderr: str
    outputs: dict[str, str]
    summary: str


def act(folder: Path, **inputs: str) -> Ran:
    """Run the step in `folder` with these inputs (`_` stands for `-`), and the defaults for all
    others.
    """
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    assert set(given) <= set(ACTION["inputs"])
    values = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | given
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    command = tools / "memreplay"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m memreplay "$@"\n')
    command.chmod(0o755)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "INPUT_"))
    }
    environment |= {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "CI": "true",
    }
    for name, text in STEP["env"].items():
        match = EXPRESSION.fullmatch(text)
        assert match is not None, f"{name} is more than an input: {text}"
        environment[name] = values[match[1]]
    script = folder / "script.sh"
    script.write_text(STEP["run"], encoding="utf-8")
    # The command that the runner uses for `shell: bash`.
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    output, summary = folder / "output", folder / "summary.md"
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    return Ran(
        done.returncode,
        done.stdout,
        done.stderr,
        dict(line.split("=", 1) for line in lines),
        summary.read_text(encoding="utf-8") if summary.exists() else "",
    )


def test_action_file_is_valid() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(one["description"] for one in ACTION["inputs"].values())
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        # Inputs must never be part of a script.
        assert "${{" not in step["run"]
    taken = {EXPRESSION.fullmatch(text)[1] for text in STEP["env"].values()}  # type: ignore[index]
    assert taken == set(ACTION["inputs"]) - {"install"}
    for name, text in STEP["env"].items():
        assert name == "INPUT_" + EXPRESSION.fullmatch(text)[1].upper().replace("-", "_")  # type: ignore[index]


def test_script_runs_in_the_bash_of_macos() -> None:
    for step in ACTION["runs"]["steps"]:
        code = re.sub(r"(?m)^\s*#.*", "", step["run"])
        assert not re.search(r"mapfile|readarray|\$\{[^}]*(\^\^|,,|@Q)|declare -[An]", code)
        # Older versions of bash treat an empty array as unbound under set -u.
        assert not re.search(
            r'(?<!\+)"\$\{(files|matches)\[@\]\}"', code.replace('("${matches[@]}")', "")
        )


def test_pre_commit_hook_runs_the_gate_on_snapshots() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == "memreplay gate"
    assert re.search(hook["files"], "runs/rank0.pkl.gz")
    assert not re.search(hook["files"], "pickle.py")


def test_passing_gate_sets_outputs_and_summary(tmp_path: Path) -> None:
    ran = act(tmp_path, snapshots=EXAMPLE, max_peak="38 GiB", forbid_oom="true")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.outputs == {"passed": "true", "exit-code": "0"}
    assert ran.stdout.startswith("::notice title=memreplay gate::PASS peak held 5.1 GiB <= 38 GiB")
    assert ran.summary.startswith("### memreplay gate passed\n")


def test_failing_dry_run_skips_the_budgets(tmp_path: Path) -> None:
    """The dry run fails, because torch with CUDA isn't installed. The action exits with the same
    code and checks no budgets.
    """
    ran = act(tmp_path, dryrun=f"{shlex.quote(sys.executable)} -c pass", max_peak="38 GiB")
    assert ran.code != 0
    assert ran.outputs == {"passed": "false", "exit-code": str(ran.code)}
    assert "::error title=memreplay dryrun::the dry run failed with exit code" in ran.stdout
    assert "memreplay: error: " in ran.stderr


# This stands in for a recorded process and needs no GPU. It writes a snapshot and prints its name.
RECORDED = """
import json, os, shutil
told = json.loads(os.environ["MEMREPLAY_RECORD"])
shutil.copy({!r}, told["path"])
open(os.path.join(told["folder"], "1"), "w").close()
"""


def test_recorded_program_keeps_its_exit_code_and_is_gated(tmp_path: Path) -> None:
    """The budgets apply to its snapshots."""
    ran = act(tmp_path, record="exit 7", max_peak="38 GiB")
    assert (ran.code, ran.outputs) == (7, {"passed": "false", "exit-code": "7"})
    assert "::error title=memreplay record::the command failed with exit code 7" in ran.stdout
    ran = act(tmp_path, record="true", max_peak="38 GiB")
    assert (
        ran.code,
        "memreplay: error: nothing was recorded" in ran.stderr,
    ) == (5, True)
    code = RECORDED.format(str(ROOT / EXAMPLE))
    words = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    for max_peak, found in (("38 GiB", 0), ("1 GiB", 1)):
        ran = act(tmp_path, record=words, max_peak=max_peak)
        assert (ran.code, "peak held 5.1 GiB" in ran.stdout) == (found, True), ran.stderr


def test_invalid_dry_run_argument_gives_the_commands_error(tmp_path: Path) -> None:
    """The action passes arguments on unchanged."""
    for more, words in (
        ({"total_memory": "1 TiB", "gpus": "99"}, "99 is not between 1 and"),
        ({"timeout": "soon"}, "'soon' is not a number of seconds"),
        ({"total_memory": "little"}, "little"),
        ({"set": "a:b", "gpu": "A9"}, "unknown card 'A9'"),
    ):
        ran = act(tmp_path, dryrun="true", **more)
        assert (ran.code, words in ran.stderr) == (2, True), ran.stderr


def test_failing_gate_writes_annotations_and_reports(tmp_path: Path) -> None:
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "model.py").touch()
    ran = act(
        tmp_path,
        snapshots=DEEPER,
        base=EXAMPLE,
        max_growth="2%",
        json="gate.json",
        junit="gate.xml",
        sarif="gate.sarif",
    )
    assert ran.code == 1
    assert ran.outputs == {"passed": "false", "exit-code": "1"}
    assert ran.stdout.startswith("::error file=gpt/model.py,line=72,title=memreplay gate%3A max-gr")
    assert "| FAIL | max-growth | peak held | +6.8% | +2% | +355.7 MiB |" in ran.summary
    for name in ("gate.json", "gate.xml", "gate.sarif"):
        assert (tmp_path / name).stat().st_size


def test_snapshots_can_be_given_as_lines_and_patterns(tmp_path: Path) -> None:
    for name in ("rank0.pkl.gz", "rank1.pkl.gz", "a b [1].pkl.gz"):
        (tmp_path / name).symlink_to(EXAMPLE)
    ran = act(tmp_path, snapshots="  rank*.pkl.gz \n\na b [1].pkl.gz\n", max_peak="1GiB")
    assert ran.code == 1
    for name in ("rank0.pkl.gz", "rank1.pkl.gz", "a b [1].pkl.gz"):
        assert f"::{name}: peak held 5.1 GiB > 1 GiB" in ran.stdout
    ran = act(tmp_path, snapshots="nothing*.pkl", max_peak="1GiB")
    assert (ran.code, ran.outputs["exit-code"]) == (3, "3")
    assert "nothing*.pkl: no such file" in ran.stderr


HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    '"; touch pwned; "',
    "'; touch pwned; '",
    "a && touch pwned",
    "${IFS}touch${IFS}pwned",
    "x[$(touch pwned)]",
    "--format=text",
    "-o pwned",
    "\\",
    "%0A::error::pwned",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["snapshots", "base", "max_peak", "junit"])
def test_inputs_are_never_read_as_shell(tmp_path: Path, name: str, text: str) -> None:
    inputs = {"snapshots": EXAMPLE, "max_peak": "38GiB"} | {name: text}
    ran = act(tmp_path, **inputs)
    assert not (tmp_path / "pwned").exists()
    if name == "base":
        assert ran.code == 3
    elif name == "junit":
        # Any string could be the name of an existing folder.
        assert ran.code in (0, 2)
    elif name == "snapshots":
        assert ran.code == 3
        assert "no such file" in ran.stderr
    else:
        assert ran.code == 2
    assert "::error::pwned" not in [line.strip() for line in ran.stdout.splitlines()]


def test_hostile_file_name_does_not_run_a_command(tmp_path: Path) -> None:
    name = "a $(touch pwned) ';\"%0A::error::x.pkl.gz"
    (tmp_path / name).symlink_to(EXAMPLE)
    ran = act(tmp_path, snapshots=name, max_peak="1GiB")
    assert ran.code == 1
    assert not (tmp_path / "pwned").exists()
    assert "peak held 5.1 GiB &gt; 1 GiB" in ran.summary
    ran = act(tmp_path, snapshots="a*.pkl.gz\n-x.pkl", max_peak="1GiB")
    assert ran.code == 3
    assert not (tmp_path / "pwned").exists()


def test_flags_other_than_true_or_false_are_rejected(tmp_path: Path) -> None:
    ran = act(tmp_path, snapshots=EXAMPLE, max_peak="1GiB", strict="yes")
    assert ran.code == 2
    assert ran.stdout == "::error title=memreplay gate::the input strict must be true or false\n"


def test_action_fails_without_a_snapshot(tmp_path: Path) -> None:
    ran = act(tmp_path, snapshots=" \n", max_peak="1GiB")
    assert ran.code == 2
    assert ran.outputs == {"passed": "false", "exit-code": "2"}


def test_no_leaks_input_fails_with_too_few_steps(tmp_path: Path) -> None:
    """If the gate couldn't check anything, it must not pass."""
    found = act(tmp_path, snapshots=EXAMPLE, forbid_leaks="true", strict="true")
    assert (found.code, found.outputs["passed"], found.outputs["exit-code"]) == (1, "false", "1")
    assert "::error title=memreplay gate%3A forbid-leaks couldn't be checked::" in found.stdout
    assert "couldn't be checked" in found.summary
