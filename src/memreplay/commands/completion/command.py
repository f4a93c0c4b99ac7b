"""`memreplay completion`: prints the script that completes commands in a shell."""

from __future__ import annotations

import click

from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.output import write


@click.command(
    "completion",
    help="\n\n".join(
        (
            COMMANDS["completion"],
            "It completes commands, options and file names when Tab is pressed.",
        )
    ),
    epilog="""\b
Install, once, with the line for your shell:
  echo 'eval "$(memreplay completion bash)"' >> ~/.bashrc
  echo 'eval "$(memreplay completion zsh)"' >> ~/.zshrc
  memreplay completion fish > ~/.config/fish/completions/memreplay.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """The script of a shell."""
    from click.shell_completion import get_completion_class

    from memreplay.commands.app import app

    maker = get_completion_class(shell)
    if maker is None:  # a later click without this shell
        raise click.ClickException(f"click has no completion for {shell}")
    write(maker(app, {}, "memreplay", "_MEMREPLAY_COMPLETE").source())
