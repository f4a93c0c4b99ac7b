"""Pack Python's standard library and the packages for the browser. `pack.mjs` runs this in Pyodide,
because bytecode is for one version of Python.

Bytecode without its source starts faster and is smaller. Modules that nothing imports are left out.
Archives are compressed as a whole rather than each member: with zstd if Python unpacks them, which
takes a quarter less than gzip, the format that browsers unpack.
"""

from __future__ import annotations

import ast
import io
import marshal
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path, PurePosixPath
from types import CodeType

# Parts of memreplay that a browser can't run: they start programs, or need a terminal, threads or
# packages that aren't here.
LEFT_OUT = (
    *("memreplay/dryrun", "memreplay/programs", "memreplay/recording", "memreplay/explore"),
    *("memreplay/integrations", "memreplay/live", "memreplay/mcp", "memreplay/notebook"),
    "memreplay/pytest_plugin.py",
    *(f"memreplay/commands/{name}" for name in ("dryrun", "explore", "mcp", "record", "watch")),
    *("click/_winconsole.py", "click/testing.py"),
    # Pages about these parts.
    *(
        f"memreplay/pages/{name}.md"
        for name in (
            *("continuous", "dryrun", "estimate", "explore", "frameworks", "mcp", "notebooks"),
            *("pytest", "record", "watch"),
        )
    ),
    *("memreplay/pages/tutorials/fit-24gb.md", "memreplay/pages/tutorials/gate-in-ci.md"),
    # Pages for developers.
    *("memreplay/pages/reference", "memreplay/pages/architecture.md", "memreplay/pages/engine.md"),
    *("memreplay/pages/performance.md", "memreplay/pages/releasing.md"),
    *("memreplay/pages/library.md", "memreplay/pages/format.md", "memreplay/pages/versions.md"),
    *("memreplay/pages/browser.md", "memreplay/pages/lines.md", "memreplay/pages/names.md"),
)
# Declarations that `plan` shares with `dryrun`.
NEEDED = {
    *(f"memreplay/commands/dryrun/{name}.py" for name in ("keeping", "numbers", "running")),
    *(f"memreplay/dryrun/{name}.py" for name in ("__init__", "cards", "changes", "ranks")),
}
# Standard modules that some function imports, but none that runs in a browser.
UNUSED = {
    *("_ast_unparse", "_py_abc", "_pydatetime", "_pyrepl", "argparse", "ctypes", "curses"),
    *("_sysconfigdata__emscripten_wasm32-emscripten", "asyncio.proactor_events"),
    *("asyncio.windows_events", "asyncio.windows_utils", "doctest", "ensurepip"),
    *("concurrent.futures.process", "ftplib", "getopt", "getpass", "http", "idlelib", "mailbox"),
    *("mimetypes", "multiprocessing", "pdb", "plistlib", "py_compile", "pydoc"),
    *("pydoc_data", "pyodide._nodesock_transport", "rlcompleter", "smtplib", "socketserver"),
    *("sqlite3", "ssl", "tarfile", "tkinter", "tracemalloc", "tty", "unittest"),
    *("urllib.error", "urllib.request", "urllib.response", "webbrowser", "wsgiref", "xml.dom"),
    *("xml.sax", "xmlrpc"),
}
# Modules that are imported by a name that the source doesn't spell out.
# The worker unpacks the packages with the last two.
BY_NAME = {"concurrent.futures.thread", "encodings", "compression.zstd", "zipfile"}
# Encodings are found by name. zipfile uses cp437.
ENCODINGS = {
    *("__init__", "aliases", "ascii", "cp437", "idna", "latin_1", "unicode_escape"),
    *("utf_8", "utf_8_sig"),
    *("utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be"),
}
KEPT_FILES = (".so", ".js", ".css")
# Every file has the same time, so that builds are reproducible.
TIME = (1980, 1, 1, 0, 0, 0)


def pack(site: Path, stdlib: Path, out: Path, roots: Iterable[str]) -> None:
    """Write `out`/site.zip.zst with the packages in `site`, and `out`/stdlib.zip with what they and
    the modules `roots` import from the archive `stdlib`.
    """
    sources = {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in sorted(site.rglob("*"))
        if path.is_file() and is_kept(path.relative_to(site).as_posix())
    }
    python = [text for name, text in sources.items() if name.endswith(".py")]
    # `help` prints a command's docstring.
    packed = archive_of(sources, docstrings=("memreplay/commands",))
    (out / "site.zip.zst").write_bytes(smallest(packed))
    with zipfile.ZipFile(stdlib) as archive:
        library = {
            info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()
        }
    kept = closure(library, set(roots), {one for text in python for one in imported(text)})
    packed = archive_of({name: library[name] for name in sorted(kept)})
    (out / "stdlib.zip").write_bytes(packed)


def smallest(data: bytes) -> bytes:
    """Compress with zstd, as well as it can."""
    from compression import zstd  # type: ignore[import-not-found]  # since Python 3.14

    parameter = zstd.CompressionParameter
    options = {parameter.compression_level: 22, parameter.window_log: 25}
    packed: bytes = zstd.compress(data, options=options)
    return packed


def is_kept(name: str) -> bool:
    """Return whether a package's file goes to the browser."""
    if name in NEEDED:
        return True
    if any(name == one or name.startswith(f"{one}/") for one in LEFT_OUT):
        return False
    if ".dist-info/" in name:  # errors name the packages that an extra needs
        return name.startswith("memreplay-") and name.endswith("/METADATA")
    return name.endswith((".py", *KEPT_FILES)) or name.startswith("memreplay/pages/")


def archive_of(files: dict[str, bytes], docstrings: tuple[str, ...] = ()) -> bytes:
    """Return an archive with the files; Python's as bytecode, without docstrings except for modules
    below `docstrings`.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            if name.endswith(".py"):
                level = 0 if docstrings and name.startswith(docstrings) else 2
                code = compile(data, f"/{name}", "exec", dont_inherit=True, optimize=level)
                data = MAGIC_NUMBER + bytes(12) + marshal.dumps(without_lines(code))
                name += "c"
            archive.writestr(zipfile.ZipInfo(name, TIME), data)
    return made.getvalue()


def without_lines(code: CodeType) -> CodeType:
    """Return the code without line numbers, a quarter of it. Only tracebacks show them."""
    constants = tuple(
        without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    return code.replace(co_linetable=b"", co_consts=constants)


def closure(library: dict[str, bytes], loaded: set[str], wanted: set[str]) -> set[str]:
    """Return the library's files that the modules `wanted` need, directly or through others, and
    those of the modules that are `loaded`.
    """
    found: set[str] = set()
    waiting = [*loaded, *wanted, *BY_NAME]
    while waiting:
        name = waiting.pop()
        if name not in loaded and any(f"{name}.".startswith(f"{one}.") for one in UNUSED):
            continue
        for file in files_of(name, library):
            if file in found:
                continue
            found.add(file)
            package = PurePosixPath(file).parent.as_posix().replace("/", ".")
            waiting.extend(imported(library[file], package.strip(".")))
    return found


def files_of(module: str, library: dict[str, bytes]) -> Iterator[str]:
    """Yield the files that importing a module runs: its packages' and its own."""
    parts = module.split(".")
    if parts[0] == "encodings":
        yield from (f"encodings/{name}.py" for name in sorted(ENCODINGS))
        return
    for count in range(1, len(parts) + 1):
        path = PurePosixPath(*parts[:count])
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in library:
                yield file


def imported(source: bytes, package: str = "") -> set[str]:
    """Return the modules that a source may import, including in functions. Parts of a module that
    aren't modules are among them.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join([*base, node.module or ""] if node.level else [node.module or ""])
            start = start.strip(".")
            found.add(start)
            found.update(f"{start}.{alias.name}" for alias in node.names)
    return {name for name in found if name}


if __name__ == "__main__":
    # What Python and Pyodide have loaded by now they need to start.
    pack(Path("/site"), Path("/pyodide/python_stdlib.zip"), Path("/parts"), list(sys.modules))
