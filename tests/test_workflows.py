"""Check the rules for GitHub workflows that are specific to this repository: permissions, pinned
actions, scripts, targets, wheels. ci/workflows lints the workflows.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
DOCUMENTS = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
USES = re.compile(r"uses: (?P<action>[^\s@]+)@(?P<commit>\S+)(?: # (?P<version>\S+))?")
# Each job's permissions besides reading the repository.
MAY = {
    ("docs.yml", "deploy"): {"pages": "write", "id-token": "write"},
    ("release.yml", "attest"): {"id-token": "write", "attestations": "write"},
    ("release.yml", "publish"): {"id-token": "write"},
    ("release.yml", "page"): {"contents": "write"},
}


def script(name: str) -> ModuleType:
    """Load a script from ci/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release_files, wheel_builds = script("release_files"), script("wheel_builds")
JOBS = [(name, job) for name, document in DOCUMENTS.items() for job in document["jobs"]]


def steps(workflow: str) -> list[dict[str, Any]]:
    jobs = DOCUMENTS[workflow]["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [])]


def test_all_workflows_exist() -> None:
    wanted = {"ci.yml", "docs.yml", "nightly.yml", "release.yml", "wheels.yml"}
    assert DOCUMENTS.keys() == wanted


def test_every_action_is_pinned_to_one_commit() -> None:
    pins: dict[str, set[tuple[str, str]]] = {}
    for path in WORKFLOWS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses: " not in line or "uses: ./" in line:
                continue
            found = USES.search(line)
            assert found is not None, line
            assert re.fullmatch(r"[0-9a-f]{40}", found["commit"]), line
            assert re.fullmatch(r"v\d+\.\d+\.\d+", found["version"] or ""), line
            pins.setdefault(found["action"], set()).add((found["commit"], found["version"]))
    assert len(pins) == 8
    assert all(len(pin) == 1 for pin in pins.values()), pins


@pytest.mark.parametrize("workflow, job", JOBS)
def test_jobs_have_only_the_permissions_they_need(workflow: str, job: str) -> None:
    assert DOCUMENTS[workflow]["permissions"] == {}
    body = DOCUMENTS[workflow]["jobs"][job]
    assert body["permissions"] == MAY.get((workflow, job), {"contents": "read"})
    assert "uses" in body or body["timeout-minutes"] <= 180


def test_pull_requests_never_run_with_mains_permissions() -> None:
    for name, document in DOCUMENTS.items():
        asked = document[True]  # the key `on`, which YAML 1.1 reads as True
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(asked), name


def test_releases_use_no_cache() -> None:
    for workflow in ("wheels.yml", "release.yml"):
        for step in steps(workflow):
            assert "cache" not in step.get("uses", "")
            assert not any("cache" in name for name in step.get("with", {}))


def test_scripts_of_workflows_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set()
    for workflow in DOCUMENTS:
        for step in steps(workflow):
            run = step.get("run", "")
            named |= set(re.findall(r"(?<![\w./-])\.?ci/[\w.-]+(?<!\.)", run))
            for target in re.findall(r"^make ([a-z-]+)", run, re.MULTILINE):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named |= {f"ci/{name}" for name in re.findall(r"\{project\}/ci/([\w.]+)", project)}
    assert {"ci/wheel_demo.py", "ci/release_files.py", "ci/truth", "ci/docs"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_publish_job_uses_the_environment_trusted_by_pypi() -> None:
    job = DOCUMENTS["release.yml"]["jobs"]["publish"]
    assert job["environment"]["name"] == "pypi"
    assert [step["uses"].partition("@")[0] for step in job["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


def test_each_tool_has_the_same_version_everywhere() -> None:
    texts = [
        (ROOT / "ci" / name).read_text(encoding="utf-8")
        for name in ("wheels.in", "wheels.txt", "workflows.txt")
    ]
    versions = [re.findall(r"^cibuildwheel==([\d.]+)", text, re.MULTILINE) for text in texts]
    assert versions[0]
    assert versions.count(versions[0]) == 3


def test_tools_of_the_page_have_the_same_versions_everywhere() -> None:
    zig = [
        re.findall(r"^ziglang==([\d.]+)", (ROOT / "ci" / name).read_text(), re.MULTILINE)
        for name in ("web.txt", "pyodide.in", "pyodide.txt")
    ]
    assert zig[0]
    assert zig == [zig[0]] * 3
    found: dict[str, set[str]] = {}
    for folder in ("viewer", "web", "editors/vscode"):
        manifest = json.loads((ROOT / folder / "package.json").read_text())
        for name, version in manifest["devDependencies"].items():
            found.setdefault(name, set()).add(version)
    assert {"esbuild", "typescript", "@biomejs/biome"} <= found.keys()
    assert [name for name, versions in found.items() if len(versions) > 1] == []


def name_of(python: str, platform: str) -> str:
    return f"memreplay-1.2.3-{python}-{platform.replace('*', '_2_27')}.whl"


def whole() -> list[str]:
    return [
        "memreplay-1.2.3.tar.gz",
        *(
            name_of(python, platform)
            for python in release_files.PYTHONS
            for platform in release_files.PLATFORMS
        ),
        "memreplay-1.2.3-cp311-abi3-pyemscripten_2026_0_wasm32.whl",
    ]


def test_complete_release_passes() -> None:
    files = whole()
    assert len(files) == 23
    assert release_files.wrong_files(files, "1.2.3") == []
    two = "manylinux_2_27_x86_64"
    joined = [name.replace(two, f"{two}.manylinux_2_28_x86_64") for name in files]
    assert release_files.wrong_files(joined, "1.2.3") == []


@pytest.mark.parametrize("gone", range(23))
def test_missing_release_file_is_reported(gone: int) -> None:
    files = whole()
    del files[gone]
    (said,) = release_files.wrong_files(files, "1.2.3")
    assert said.startswith("no memreplay-1.2.3")


@pytest.mark.parametrize(
    "more",
    [
        "memreplay-1.2.4.tar.gz",
        "memreplay-1.2.3-cp311-cp311-win_amd64.whl",
        "memreplay-1.2.3-cp311-abi3-linux_x86_64.whl",
        "memreplay-1.2.3-cp311-abi3-win_amd64.whl.part",
    ],
)
def test_unexpected_release_file_is_reported(more: str) -> None:
    assert release_files.wrong_files([*whole(), more], "1.2.3") == [f"no part of a release: {more}"]


def test_page_comes_in_three_forms() -> None:
    names = ["memreplay-site.zip", "memreplay.html", "memreplay.vsix"]
    assert release_files.wrong_page(names) == []
    assert release_files.wrong_page([*names[:2], "log.txt"]) == [
        "no memreplay.vsix",
        "no part of a release: log.txt",
    ]


def test_wheel_for_pyodide_is_the_one_that_is_built() -> None:
    text = (ROOT / "web" / "wasm_wheel.py").read_text()
    assert re.findall(r'^PLATFORM = "(.+)"', text, re.MULTILINE) == [*release_files.ONLY_ABI3]


def test_release_page_has_all_files_and_their_checksums(tmp_path: Path) -> None:
    """Run the step with a `gh` that keeps its arguments."""
    (step,) = [one for one in steps("release.yml") if "gh release create" in one.get("run", "")]
    for file in ("dist-sdist/a.tar.gz", "dist-pyodide/a.whl", "page/a.html", "notes/notes.md"):
        path = tmp_path / "artifacts" / file
        path.parent.mkdir(parents=True)
        path.write_text(file)
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >asked\n')
    gh.chmod(0o755)
    env = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "GITHUB_REF_NAME": "v1.2.3"}
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=env, check=True)
    files = ["a.html", "a.tar.gz", "a.whl"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:5] == ["release", "create", "v1.2.3", "--verify-tag", "--title"]
    assert asked[5:8] == ["memreplay 1.2.3", "--notes-file", "artifacts/notes/notes.md"]
    assert asked[8:] == [*(f"files/{name}" for name in files), "SHA256SUMS"]
    check = ["sha256sum", "--check", "--strict", "../SHA256SUMS"]
    checked = subprocess.run(
        check, cwd=tmp_path / "files", check=True, capture_output=True, text=True
    )
    assert checked.stdout.splitlines() == [f"{name}: OK" for name in files]


def test_only_packages_are_published_on_pypi() -> None:
    """The page's files are for the release only."""
    uploaded = {
        step["with"]["name"]: step["with"]["path"].split()
        for step in steps("wheels.yml")
        if step.get("uses", "").startswith("actions/upload-artifact")
    }
    page = {name.rpartition("/")[2] for name in uploaded.pop("page")}
    assert page == {*release_files.PAGE}
    assert all(name.startswith("dist-") for name in uploaded)
    publish = DOCUMENTS["release.yml"]["jobs"]["publish"]["steps"][0]["with"]
    assert publish["pattern"] == "dist-*"


def test_release_contains_every_built_wheel() -> None:
    built = {build.partition("-")[2] for build in wheel_builds.builds()}
    wanted = {platform.replace("*", "") for platform in release_files.PLATFORMS}
    assert built == wanted
    released = {python.partition("-")[2] for python in release_files.PYTHONS} - {"abi3"}
    assert released <= set(wheel_builds.PYTHONS)
    assert any(fnmatch("cp311", python.partition("-")[0]) for python in release_files.PYTHONS)


def test_release_takes_its_notes_from_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    assert release_files.version(tmp_path) == "1.2.3"
    log = tmp_path / "CHANGELOG.md"
    begun = "# Changelog\n\n## [1.2.3] - "
    log.write_text(f"{begun}2026-11-25\n\n### Added\n\n- A.\n\n## [1.2.2] - 2026-01-01\n\n- B.\n")
    assert release_files.notes("1.2.3", tmp_path) == "### Added\n\n- A.\n"
    assert release_files.notes("1.2.2", tmp_path) == "- B.\n"
    for text, words in (
        (f"{begun}unreleased\n\n- A.\n", "has no date of 1.2.3"),
        (f"{begun}2026-11-25\n\n## [1.2.2] - 2026-01-01\n\n- B.\n", "has an empty entry for 1.2.3"),
        ("# Changelog\n", "has no part of 1.2.3"),
    ):
        log.write_text(text)
        with pytest.raises(SystemExit, match=words):
            release_files.notes("1.2.3", tmp_path)


def test_tag_must_match_the_version() -> None:
    with pytest.raises(SystemExit, match=r"the tag is v0\.0\.0, and pyproject\.toml has version"):
        release_files.main(["--tag", "v0.0.0"])
