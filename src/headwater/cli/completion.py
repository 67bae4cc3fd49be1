"""`headwater completion bash|zsh|fish`: the script with which a shell completes `headwater` commands."""

import click
from click.shell_completion import get_completion_class


@click.command(epilog='For bash, put  eval "$(headwater completion bash)"  into ~/.bashrc.')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL."""
    completer = get_completion_class(shell)
    assert completer is not None, "click knows all three shells"
    root = context.find_root()
    click.echo(completer(root.command, {}, "headwater", "_HEADWATER_COMPLETE").source())
