"""A group of commands that are imported when they run, so that help costs no more than click itself."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """The command NAME is the attribute NAME of this module, with `_` for `-`, unless another attribute is named."""

    module: str
    help: str
    attribute: str | None = None


class LazyGroup(click.Group):
    def __init__(self, *arguments: Any, lazy_commands: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        found = self._commands.get(cmd_name)
        if found is None:
            return None
        return getattr(import_module(found.module), found.attribute or cmd_name.replace("-", "_"))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self._commands and not ctx.resilient_parsing:
            from headwater.config.declaration import nearest

            meant = nearest(args[0], self._commands)
            hint = f"; did you mean {meant!r}?" if meant else ""
            ctx.fail(f"unknown command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self._commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=command.help)
            for name, command in self._commands.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
