"""Compile and link C for Pyodide with zig's clang, instead of emscripten, which no package index
has.

setup.py calls this as its C compiler, and with `link` as its linker. `make_headers` must have
written the headers first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADERS = ROOT / "build" / "web" / "headers"
# What Python's own settings add: clang or the target doesn't know it, or it's for this machine.
DROPPED = ("-pthread", "-Wl,", "-Wsign-compare", "-fwrapv", "-g", "-I/")


def main(arguments: list[str]) -> int:
    """Compile, or link if the first argument is `link`; return the exit code."""
    zig = zig_folder()
    command = linking(arguments[1:]) if arguments[:1] == ["link"] else compiling(zig, arguments)
    cache = str(ROOT / "build" / "web" / "zig")
    env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    return subprocess.run([str(zig / "zig"), *command], env=env, check=False).returncode


def zig_folder() -> Path:
    """Return the folder of the package ziglang."""
    found = find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        sys.exit("ziglang isn't installed: ci/web installs it")
    return Path(found.submodule_search_locations[0])


def compiling(zig: Path, arguments: list[str]) -> list[str]:
    """Return zig's arguments for compiling.

    zig has no C library for emscripten, but musl's headers for 32 bits, which emscripten's libc
    is made from. Python's headers and the types come from `HEADERS`.
    """
    libc = zig / "lib" / "libc" / "include"
    folders = [zig / "lib" / "include", HEADERS, libc / "riscv32-linux-musl", libc / "generic-musl"]
    return [
        *("cc", "-target", "wasm32-emscripten", "-mcpu=generic-extended_const", "-nostdinc"),
        *(word for folder in folders for word in ("-isystem", str(folder))),
        *("-fPIC", "-fvisibility=hidden", "-fno-sanitize=undefined", "-fwrapv"),
        *(word for word in arguments if not word.startswith(DROPPED)),
    ]


def linking(arguments: list[str]) -> list[str]:
    """Return zig's arguments for linking a side module, which exports each module's PyInit."""
    output = arguments[arguments.index("-o") + 1]
    objects = [word for word in arguments if word.endswith(".o") and word != output]
    exports = [f"--export-if-defined=PyInit_{Path(word).stem}" for word in objects]
    return [
        *("wasm-ld", "-shared", "--experimental-pic", "--no-entry", "--allow-undefined"),
        *("--import-memory", "--strip-all", *objects, "-o", output, *exports),
    ]


def make_headers() -> None:
    """Write Python's headers with the sizes of the target, and musl's types as emscripten has them:
    there, the types of an address's size are `long`.
    """
    shutil.rmtree(HEADERS, ignore_errors=True)
    own = shutil.ignore_patterns("pyconfig.h")
    shutil.copytree(sysconfig.get_path("include"), HEADERS, ignore=own)
    shutil.copy(ROOT / "ci" / "headers" / "pyconfig.h", HEADERS)
    types = (zig_folder() / "lib/libc/include/generic-musl/bits/alltypes.h").read_text()
    for name in ("_Addr", "_Reg"):
        types = types.replace(f"#define {name} int\n", f"#define {name} long\n")
    (HEADERS / "bits").mkdir()
    (HEADERS / "bits" / "alltypes.h").write_text(types)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
