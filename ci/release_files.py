"""Check that a release is complete: its version everywhere, and all its files.

    python ci/release_files.py --tag v1.2.3 [--notes FILE]   the version and its changelog entry
    python ci/release_files.py DIST                          exactly all wheels and the sdist
    python ci/release_files.py DIST --page FOLDER            also the page's forms

Needs only Python.
"""

from __future__ import annotations

import argparse
import re
import sys
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# abi3 works for Python 3.11 and later. Free-threaded Python has no abi3.
PYTHONS = ("cp310-cp310", "cp311-abi3", "cp314-cp314t")
PLATFORMS = (
    "manylinux*_x86_64",
    "manylinux*_aarch64",
    "musllinux*_x86_64",
    "musllinux*_aarch64",
    "macosx*_x86_64",
    "macosx*_arm64",
    "win_amd64",
)
# Pyodide has one Python, which can use the abi3 wheel.
ONLY_ABI3 = ("pyemscripten_2026_0_wasm32",)
# The page as one file, as a site, and in VS Code. Their names have no version, so that
# releases/latest/download/NAME is the newest.
PAGE = ("memreplay-site.zip", "memreplay.html", "memreplay.vsix")


def version(root: Path = ROOT) -> str:
    """Return the version in pyproject.toml."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("pyproject.toml has no version")
    return found[1]


def notes(wanted: str, root: Path = ROOT) -> str:
    """Return a version's changelog entry. Raise SystemExit if it's missing or has no date."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    head = re.search(rf"^## \[{re.escape(wanted)}\] - (.+)$", text, re.MULTILINE)
    if head is None:
        raise SystemExit(f"CHANGELOG.md has no part of {wanted}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", head[1]):
        raise SystemExit(f"CHANGELOG.md has no date of {wanted}, but {head[1]!r}")
    following = re.compile(r"^(## \[|\[.+\]: )", re.MULTILINE).search(text, head.end())
    said = text[head.end() : following.start() if following else None].strip()
    if not said:
        raise SystemExit(f"CHANGELOG.md has an empty entry for {wanted}")
    return f"{said}\n"


def wheels() -> list[tuple[str, str]]:
    """Return the Python and the platform of each wheel."""
    everywhere = [(python, on) for python in PYTHONS for on in PLATFORMS]
    return everywhere + [("cp311-abi3", on) for on in ONLY_ABI3]


def wrong_files(names: list[str], wanted: str) -> list[str]:
    """Return the release's missing and superfluous files."""
    left = set(names)
    wrong = []
    patterns = [f"memreplay-{wanted}.tar.gz"]
    patterns += [f"memreplay-{wanted}-{python}-{on}.whl" for python, on in wheels()]
    for pattern in patterns:
        # If a wheel is for several platforms, dots separate them.
        found = {name for name in left if fnmatch(name, pattern)}
        if len(found) != 1:
            wrong.append(f"{len(found) or 'no'} {pattern}")
        left -= found
    return wrong + [f"no part of a release: {name}" for name in sorted(left)]


def wrong_page(names: list[str]) -> list[str]:
    """Return the missing and superfluous files of the page."""
    missing = [f"no {name}" for name in PAGE if name not in names]
    return missing + [f"no part of a release: {name}" for name in names if name not in PAGE]


def main(arguments: list[str]) -> None:
    """Run the checks. Raise SystemExit with the findings."""
    parser = argparse.ArgumentParser(description="Whether a release is complete.")
    parser.add_argument("dist", nargs="?", type=Path, metavar="DIST")
    parser.add_argument("--page", type=Path, metavar="FOLDER")
    parser.add_argument("--tag")
    parser.add_argument("--notes", type=Path, metavar="FILE")
    asked = parser.parse_args(arguments)
    is_version = version()
    if asked.tag is not None and asked.tag != f"v{is_version}":
        raise SystemExit(f"the tag is {asked.tag}, and pyproject.toml has version {is_version}")
    if asked.tag is not None:
        said = notes(is_version)
        if asked.notes is not None:
            asked.notes.write_text(said, encoding="utf-8")
        sys.stdout.write(f"version {is_version}, and the changelog has it\n")
    if asked.dist is not None:
        files = sorted(asked.dist.iterdir())
        wrong = wrong_files([file.name for file in files], is_version)
        if asked.page is not None:
            pages = sorted(asked.page.iterdir())
            wrong += wrong_page([file.name for file in pages])
            files += pages
        if wrong:
            raise SystemExit("\n".join(wrong))
        for file in files:
            data = file.read_bytes()
            kib = f"{len(data) / 1024:,.0f} KiB"
            sys.stdout.write(f"{sha256(data).hexdigest()}  {file.name}  {kib}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
