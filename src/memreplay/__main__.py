"""The entry point of `memreplay` and of `python -m memreplay`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends with SystemExit."""
    from memreplay.cli.app import app

    # A name is given, so that `python -m memreplay` speaks of `memreplay` too.
    app(prog_name="memreplay")


if __name__ == "__main__":
    main()
