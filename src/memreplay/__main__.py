"""The entry point of `memreplay` and of `python -m memreplay`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends with SystemExit."""
    try:
        from memreplay.cli.app import app

        # A name is given, so that `python -m memreplay` speaks of `memreplay` too.
        app(prog_name="memreplay")
    except KeyboardInterrupt:  # while modules are loaded: later the command line sees to it
        raise SystemExit(130) from None


def run() -> None:
    """`main` as a process of its own: it sets Python up for that, and ends at once."""
    import atexit
    import gc
    import os
    import sys

    # Imports make many objects and no garbage.
    gc.set_threshold(50_000)
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        # Taking every module apart one by one takes a tenth of a short command's time.
        atexit._run_exitfuncs()
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):  # Python's own way out has words for it
            raise end from None
        os._exit(end.code)


if __name__ == "__main__":
    run()
