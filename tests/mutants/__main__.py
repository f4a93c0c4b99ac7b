"""The command line, `python -m tests.mutants`: find small changes that no test notices."""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.conftest import ROOT
from tests.mutants.mutations import Mutation, mutations

SRC = ROOT / "src"
PYTEST = ("-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "--benchmark-disable")
LONGEST = 300  # seconds that the tests may take for one change
WORDS = ("killed", "survived", "did not end", "failed before", "left out")


class Chosen(NamedTuple):
    """A change to a file, and the test files that may notice it: those of this file and of related
    files.
    """

    path: Path
    mutation: Mutation
    own: tuple[Path, ...]
    around: tuple[Path, ...]

    def __str__(self) -> str:
        one = self.mutation
        old, new = (" ".join(text.split()) for text in (one.old, one.new))
        return f"{self.path.relative_to(ROOT)}:{one.line}: {old}  ->  {new}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="change these, whatever has changed")
    parser.add_argument("--base", default="", help="change what differs from this revision (all)")
    parser.add_argument("--count", type=int, default=60, help="so many changes (60)")
    parser.add_argument("--seed", type=int, default=0, help="other changes (0)")
    parser.add_argument("--minutes", type=float, default=20, help="begin none after so long (20)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    files = [path.resolve() for path in options.files] or changed(options.base)
    chosen = choose(files, options.count, options.seed)
    print(f"{len(chosen)} changes of {len(files)} modules, seed {options.seed}", flush=True)
    words = run(chosen, options.workers, began + 60 * options.minutes)
    tell(chosen, words)
    print(f"{time.monotonic() - began:.0f} s")
    return 2 if "failed before" in words else 0


def changed(base: str) -> list[Path]:
    """Return the package's modules that differ from a revision, or all modules if none differs."""
    every = sorted(path for path in SRC.rglob("*.py") if path.stat().st_size)
    if not base:
        return every
    asked = ["git", "diff", "--name-only", base, "--", "src"]
    said = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    named = {ROOT / line for line in said.splitlines()}
    return [path for path in every if path in named] or every


def choose(files: Iterable[Path], most: int, seed: int) -> list[Chosen]:
    """Choose this many random changes; the same seed and files give the same changes."""
    every = [(path, one) for path in files for one in mutations(path.read_bytes())]
    picked = random.Random(seed).sample(every, min(most, len(every)))
    tests = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    code = {path: path.read_text() for path in sorted(SRC.rglob("*.py"))}
    of_file = {path: tests_of(path, tests, code) for path in dict(picked)}
    return [Chosen(path, one, *of_file[path]) for path, one in picked]


def tests_of(
    path: Path, tests: dict[Path, str], code: dict[Path, str]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the test files that are named after the module, that import it, or that are named
    after a module that imports it. Folders are ignored.
    """
    own = [test for test in tests if test.stem == f"test_{path.stem}"]
    parts = path.relative_to(SRC).with_suffix("").parts
    parent, name = re.escape(".".join(parts[:-1])), re.escape(parts[-1])
    imports = re.compile(rf"\b{parent}\.{name}\b|from {parent} import (\([^)]*|[^\n(]*)\b{name}\b")
    users = {f"test_{one.stem}" for one, text in code.items() if imports.search(text)}
    around = [
        test
        for test, text in tests.items()
        if test not in own and (test.stem in users or imports.search(text))
    ]
    return tuple(own), tuple(around)


def run(chosen: list[Chosen], workers: int, until: float) -> list[str]:
    """Run the tests for each change separately, using one copy of the sources per worker."""
    times = count(1_000_000_000)
    with tempfile.TemporaryDirectory() as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copies.put(copied(Path(scratch, str(number))))

        def look(one: Chosen) -> str:
            if time.monotonic() > until:
                return "left out"
            copy = copies.get()
            try:
                word = outcome(one, copy, next(times))
            finally:
                copies.put(copy)
            print("." if word == "killed" else word[0].upper(), end="", flush=True)
            return word

        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(look, chosen))
    print()
    return found


def copied(folder: Path) -> Path:
    """Copy the sources into new folders that link to all files."""
    shutil.copytree(
        SRC,
        folder,
        copy_function=lambda source, target: os.symlink(os.path.realpath(source), target),
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
    )
    return folder


def outcome(one: Chosen, copy: Path, made: int) -> str:
    """Run the tests for a change; return one of WORDS. `made` is the file's modification time, from
    which Python decides whether the bytecode is up to date.
    """
    path = copy / one.path.relative_to(SRC)
    try:
        for tests in (one.own, one.around):
            path.unlink()
            path.write_bytes(one.mutation.applied(one.path.read_bytes()))
            os.utime(path, (made, made))
            failed = first_failed([str(test) for test in tests], copy) if tests else None
            path.unlink()
            path.symlink_to(one.path)
            if failed is not None:
                # If the unchanged code failed as well, every change would appear to be noticed.
                return "failed before" if first_failed([failed], copy) else "killed"
    except subprocess.TimeoutExpired:
        path.unlink()
        path.symlink_to(one.path)
        return "did not end"
    return "survived"


def first_failed(tests: list[str], copy: Path) -> str | None:
    """Return the first test that fails or the file that can't be read; None if all pass."""
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONPYCACHEPREFIX": f"{copy}-compiled"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *PYTEST, "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=LONGEST
    )
    if done.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return named[1] if named else tests[0]


def tell(chosen: list[Chosen], words: list[str]) -> None:
    """Print how often each word occurred, and all unnoticed changes."""
    for word in WORDS[1:-1]:
        for line in sorted(str(one) for one, is_ in zip(chosen, words, strict=True) if is_ == word):
            print(f"{word}: {line}")
    counts = Counter(words)
    print(", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word]))


if __name__ == "__main__":
    sys.exit(main())
