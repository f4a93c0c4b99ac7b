"""Simulate a system without Linux features: load all modules, run commands.

    python -m tests.elsewhere FOLDER

The system is still Linux, with modules and functions removed, so this finds uses of features that
Windows or macOS lack, but not differences in behaviour.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path

# Import these first, because their dependencies differ on those systems and aren't tested here.
OTHERS = [
    "asyncio",
    "click",
    "msgspec",
    "multiprocessing.connection",
    "numpy",
    "rich.console",
    "subprocess",
    "tempfile",
    "webbrowser",
]

MODULES = {
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
}
NAMES = {
    os: (
        "O_NONBLOCK",
        "ST_NOEXEC",
        "fork",
        "forkpty",
        "getegid",
        "geteuid",
        "getgid",
        "getpgid",
        "getuid",
        "killpg",
        "mkfifo",
        "pathconf",
        "pread",
        "register_at_fork",
        "sched_getaffinity",
        "setsid",
        "statvfs",
        "sysconf",
        "uname",
    ),
    select: ("epoll", "poll"),
    signal: (
        "SIGALRM",
        "SIGHUP",
        "SIGKILL",
        "SIGPIPE",
        "SIGQUIT",
        "SIGUSR1",
        "SIGUSR2",
        "pthread_kill",
        "pthread_sigmask",
        "setitimer",
    ),
    time: ("tzset",),
}


class Hidden(MetaPathFinder):
    """An import finder that hides the modules that exist only on Linux."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide() -> None:
    """Hide the features that only Linux has, for the rest of this process."""
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Hidden())
    sys.path_importer_cache.clear()
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    # shutil.rmtree checks the system's features once, when shutil is imported.
    vars(shutil)["_use_fd_functions"] = False


def load_all() -> Iterator[str]:
    """Import every module; return those that fail, and why. Missing extras are allowed."""
    import memreplay

    for found in pkgutil.walk_packages(memreplay.__path__, "memreplay."):
        # Skip modules that belong to the dry run's program or its libraries, and those that exit
        # the process on import.
        if ".inside." in found.name or ".dryrun._" in found.name or found.name.endswith("__main__"):
            continue
        # textual and mcp check sys.platform at import, which still says Linux.
        of_textual = ("memreplay.explore.", "memreplay.live.app")
        if found.name.startswith((*of_textual, "memreplay.mcp.server")):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name in MODULES or (error.name or "").startswith("memreplay"):
                yield f"{found.name}: {error}"
        except Exception:
            yield f"{found.name}: {traceback.format_exc()}"


def run_all(folder: Path, example: str, other: str) -> Iterator[str]:
    """Run commands; return those with an unexpected outcome."""
    from memreplay.commands.app import app

    def out(name: str) -> list[str]:
        return ["-o", str(folder / name)]

    for arguments, code in (
        (["summary", example], 0),
        (["peak", example], 0),
        (["peak", example, "--format", "json"], 0),
        (["report", example], 0),
        (["at", example, "100"], 0),
        (["timeline", example], 0),
        (["diff", example, other], 0),
        (["allocations", example], 0),
        (["simulate", example, "--set", "max_split_size_mb:64"], 0),
        (["gate", example, "--config", "none", "--max-peak", "6GiB"], 0),
        (["gate", example, other, "--config", "none", "--max-peak", "1GiB", "--top", "1"], 1),
        (["fleet", str(Path(example).parent), "--workers", "2"], 0),
        (["view", example, *out("page.html")], 0),
        (["export", example, *out("trace.perfetto-trace")], 0),
        (["export", example, *out("copy.json")], 0),
        (["export", example, "--to", "100", *out("part.pickle")], 0),
        (["watch", str(Path(example).parent), "--until", "now"], 0),
        (["record", *out("recorded.pickle"), "--", sys.executable, "-c", ""], 5),
        (["help", "peak"], 0),
        (["completion", "bash"], 0),
    ):
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        ended: object = None
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                app(arguments, prog_name="memreplay")
            except SystemExit as end:
                ended = end.code or 0
            except Exception:
                ended = traceback.format_exc()
        if ended != code:
            said.flush()
            text = said.buffer.getvalue().decode()
            yield f"memreplay {' '.join(arguments)}: {ended}, not {code}\n{text}"


def main(folder: Path) -> None:
    """Print anything that went wrong, and exit with 1 if there was any."""
    data = Path(__file__).parent / "data"
    snapshots = folder / "snapshots"
    snapshots.mkdir()
    files = []
    for name in ("transformer_step.pkl.gz", "transformer_deeper.pkl.gz"):
        (snapshots / name).write_bytes((data / name).read_bytes())
        files.append(str(snapshots / name))
    for name in OTHERS:
        importlib.import_module(name)
    hide()
    wrong = [*load_all(), *run_all(folder, *files)]
    sys.stdout.write("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
