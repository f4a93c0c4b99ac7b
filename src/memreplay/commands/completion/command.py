"""`memreplay completion`: print a shell's completion script."""

from __future__ import annotations

import click

from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.output import write


@click.command(
    "completion",
    help="\n\n".join(
        (
            COMMANDS["completion"],
            "With it, Tab completes commands, options and file names.",
        )
    ),
    epilog="""\b
To install it, run the line for your shell once:
  echo 'eval "$(memreplay completion bash)"' >> ~/.bashrc
  echo 'eval "$(memreplay completion zsh)"' >> ~/.zshrc
  memreplay completion fish > ~/.config/fish/completions/memreplay.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a shell's completion script."""
    from click.shell_completion import get_completion_class

    from memreplay.commands.app import app

    maker = get_completion_class(shell)
    if maker is None:  # a later version of click may no longer support this shell
        raise click.ClickException(f"click has no completion for {shell}")
    write(maker(app, {}, "memreplay", "_MEMREPLAY_COMPLETE").source())
