"""The entry point of `memreplay` and of `python -m memreplay`."""

from __future__ import annotations


def main() -> None:
    """Run the command line. Always raises SystemExit."""
    try:
        from memreplay.commands.app import app

        # Set explicitly so that `python -m memreplay` also prints `memreplay`.
        app(prog_name="memreplay")
    except KeyboardInterrupt:  # Ctrl-C during imports; later, the command line handles it
        raise SystemExit(130) from None


def run() -> None:
    """Run `main` as a process's entry point: configure Python, and exit quickly."""
    import sys

    version_alone = sys.argv[1:] in (["--version"], ["-V"])
    # Until the command line handles Ctrl-C, exit silently instead of printing a traceback of the
    # imports.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    import atexit
    import gc
    import os

    # Imports create many objects but no garbage, so don't collect yet.
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
        # Skip tearing down every module, which would take a tenth of a short command's time.
        atexit._run_exitfuncs()
        try:
            sys.stderr.flush()
            sys.stdout.flush()
        except (OSError, ValueError):
            # Exit codes other than 0 were already reported. Don't let Python print another message.
            if not end.code:
                raise end from None
        os._exit(end.code)


def _wrote_version() -> bool:
    """Answer `--version` without the command-line parser.

    Return False if stdout can't be written; the parser reports that.
    """
    import os

    from memreplay.io.version import __version__

    line = f"memreplay {__version__}\n".encode()
    try:
        return os.write(1, line) == len(line)
    except OSError:
        return False


def _load_msgspec() -> None:
    """Import msgspec without typing_extensions, which would take half of the import time. msgspec
    only needs functions that `typing` also has.
    """
    import sys

    if sys.hexversion < 0x030B0000 or "typing_extensions" in sys.modules:
        return  # in Python 3.10, typing lacks some of these functions
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def _replace_closed() -> None:
    """Reopen closed standard streams (`>&-`), so that other files don't get their descriptors.

    Reading and writing then fail, which the command line reports. Error output is discarded.
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
