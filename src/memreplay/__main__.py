"""The entry point of `memreplay` and of `python -m memreplay`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends with SystemExit."""
    try:
        from memreplay.commands.app import app

        # A name is given, so that `python -m memreplay` speaks of `memreplay` too.
        app(prog_name="memreplay")
    except KeyboardInterrupt:  # while modules are loaded: later the command line sees to it
        raise SystemExit(130) from None


def run() -> None:
    """`main` as a process of its own: it sets Python up for that, and ends at once."""
    import sys

    version_alone = sys.argv[1:] in (["--version"], ["-V"])
    # Until the command line takes it, Ctrl-C ends the process as it ends any other: Python would
    # show where it was in loading modules.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    import atexit
    import gc
    import os

    # Imports make many objects and no garbage.
    gc.set_threshold(50_000)
    _replace_closed()
    try:
        if version_alone and _wrote_version():
            raise SystemExit(0)
        from memreplay.commands.shared.ending import take_signals

        take_signals()
        _load_msgspec()
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        # Taking every module apart one by one takes a tenth of a short command's time.
        atexit._run_exitfuncs()
        try:
            sys.stderr.flush()
            sys.stdout.flush()
        except (OSError, ValueError):
            if not end.code:  # else it was said; Python's own way out has words for it
                raise end from None
        os._exit(end.code)


def _wrote_version() -> bool:
    """Answers `--version`, without what reads a command line; False where that has to: stdout
    cannot be written to, and there are words for it."""
    import os

    from memreplay.io.version import __version__

    line = f"memreplay {__version__}\n".encode()
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


def _load_msgspec() -> None:
    """Loads msgspec without typing_extensions, half of its time: it knows typing as well."""
    import sys

    if sys.hexversion < 0x030B0000 or "typing_extensions" in sys.modules:
        return  # Python 3.10 has not all of it
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def _replace_closed() -> None:
    """Opens closed standard streams (`>&-`) again, as a file would get their number.

    Reading and writing there fail, and the command line has words for that; errors go nowhere.
    """
    import os
    import sys

    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            flags = os.O_RDONLY if name == "stdout" else os.O_WRONLY
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.open(os.devnull, flags), mode))  # noqa: SIM115


if __name__ == "__main__":
    run()
