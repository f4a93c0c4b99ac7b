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


if __name__ == "__main__":
    main()
