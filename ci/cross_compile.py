"""Cross-compile and link the C code of all modules.

Package indexes don't have Python for these systems, so this uses the running Python's headers,
which are the same everywhere except `pyconfig.h` (in ci/headers). Only symbols that Python itself
provides may stay undefined.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "build" / "c-release"
ZIG = [sys.executable, "-m", "ziglang"]
TARGETS = ["x86_64-windows-gnu", "aarch64-macos"]
MORE = ["x86_64-macos", "aarch64-linux-gnu", "aarch64-linux-musl", "x86_64-linux-musl"]
STABLE = "-DPy_LIMITED_API=0x030b0000"  # as in setup.py
# Cython declares functions that not every module uses.
CLANG = ["-std=c11", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
# Cython's code mixes signedness. Its method tables don't set every field, and cast functions with
# different signatures to one type.
CLANG += ["-Wno-sign-compare", "-Wno-missing-field-initializers", "-Wno-cast-function-type"]
CLANG += ["-Wno-unused-parameter", STABLE]
GCC = ["-fsyntax-only", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-DMEMREPLAY_PORTABLE", STABLE]
GCC += ["-Wno-sign-compare", "-Wno-missing-field-initializers", "-Wno-cast-function-type"]
GCC += ["-Wno-unused-parameter", "-Wno-overlength-strings"]
# POSIX requires this conversion for dlsym. Cython uses it for C functions that modules share.
CONVERTED = re.compile(
    r"ISO C forbids (conversion of (function|object) pointer to (function|object) pointer type"
    r"|initialization between function pointer and)"
)
UNDEFINED = re.compile(r"undefined symbol: (\S+)")


def main() -> int:
    """Compile for each system. Return 1 if there was any output."""
    parser = argparse.ArgumentParser(description="Compiles the C of all modules for other systems.")
    parser.add_argument("--all", action="store_true", help="for all systems that wheels are for")
    chosen = parser.parse_args()
    files = sorted(SOURCES.rglob("*.c"))
    if not files:
        sys.exit(f"no C in {SOURCES}: make demo makes it")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        headers = Path(folder, "include")
        shutil.copytree(
            sysconfig.get_path("include"),
            headers,
            ignore=shutil.ignore_patterns("pyconfig.h"),
        )
        shutil.copy(ROOT / "ci" / "headers" / "pyconfig.h", headers)
        failed += by_the_letter(files)
        for target in TARGETS + (MORE if chosen.all else []):
            failed += for_target(files, target, headers, Path(folder, target))
    return min(failed, 1)


def by_the_letter(files: list[Path]) -> int:
    """Compile with the local compiler and `-pedantic`. Ignore warnings about Cython's own code."""
    began = time.monotonic()
    compiler = os.environ.get("CC", "gcc").split()
    command = [*compiler, *GCC, f"-I{sysconfig.get_path('include')}"]
    said = [line for text in each(command, files) for line in text.splitlines()]
    found = [line for line in said if re.search(r"(warning|error): ", line)]
    ours = [line for line in found if not CONVERTED.search(line)]
    sys.stdout.writelines(f"{line}\n" for line in ours[:20])
    report("C11, pedantic", files, began, f"{len(ours)} warnings")
    return bool(ours)


def for_target(files: list[Path], target: str, headers: Path, folder: Path) -> int:
    """Compile and link, and print the output."""
    began = time.monotonic()
    folder.mkdir()
    compile_one = [*ZIG, "cc", "-target", target, "-c", *CLANG, f"-I{headers}"]
    errors = [text for text in each(compile_one, files, folder) if text]
    absent = linked(target, folder) if not errors else []
    sys.stdout.write("".join(errors)[:4000])
    sys.stdout.writelines(f"no {name} on {target}\n" for name in absent)
    report(target, files, began, "failed" if errors or absent else "compiled and linked")
    return bool(errors or absent)


def each(command: list[str], files: list[Path], folder: Path | None = None) -> list[str]:
    """Return the compiler's output for each file."""

    def one(numbered: tuple[int, Path]) -> str:
        number, path = numbered
        output = ["-o", str(folder / f"{number}.o")] if folder else []
        done = subprocess.run(
            [*command, *output, path], capture_output=True, text=True, check=False
        )
        failed = f"{path}: exit code {done.returncode}\n" if done.returncode else ""
        return done.stdout + done.stderr + failed

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, enumerate(files)))


def linked(target: str, folder: Path) -> list[str]:
    """Return the symbols that neither the system nor Python provides.

    Linkers name only the first few undefined symbols, so this adds Python's symbols to a stand-in
    library and links again, until no new ones are reported.
    """
    python: set[str] = set()
    command = [*ZIG, "cc", "-target", target, "-shared", "-o", str(folder / "_core")]
    command += [str(path) for path in sorted(folder.glob("*.o"))]
    if "linux" in target:
        command += ["-Wl,-z,defs", "-lm"]
    while True:
        done = subprocess.run(
            [*command, *stand_in(target, folder, python)],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.returncode:
            return [] if len(python) > 50 else ["Python"]
        prefix = "_" if "macos" in target else ""
        found = {name.removeprefix(prefix) for name in UNDEFINED.findall(done.stderr)}
        more = {name for name in found if re.match(r"_?Py", name)}
        if found - more or not more - python:
            return sorted(found - more) or [done.stderr[:2000]]
        python |= more


def stand_in(target: str, folder: Path, names: set[str]) -> list[str]:
    """Build a library that defines these names."""
    if not names:
        return []
    if "windows" in target:
        listed = folder / "python3.def"
        listed.write_text("LIBRARY python3.dll\nEXPORTS\n" + "\n".join(sorted(names)) + "\n")
        made = str(folder / "libpython3.a")
        tool = ["dlltool", "-m", "i386:x86-64", "-d", str(listed), "-l", made, "-D", "python3.dll"]
        subprocess.run([*ZIG, *tool], check=True)
        return [made]
    source, made = folder / "python.c", str(folder / "python.o")
    source.write_text("".join(f"char {name}[1];\n" for name in sorted(names)))
    subprocess.run([*ZIG, "cc", "-target", target, "-c", str(source), "-o", made], check=True)
    return [made]


def report(name: str, files: list[Path], began: float, how: str) -> None:
    """Print one line per system."""
    seconds = time.monotonic() - began
    sys.stdout.write(f"{name:20} {len(files)} files, {seconds:.0f} s: {how}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
