"""Options and words that `headwater acl` and `headwater role` share: principals, resources and operations as people
write them."""

from collections.abc import Callable
from typing import TypeVar

import click

from headwater.security.acl import CLUSTER, OPERATIONS, WILDCARD, Operation, ResourceType, words
from headwater.security.principals import USER


def dashed(named: ResourceType | Operation) -> str:
    """As options name it: `transactional-id`, `describe-configs`."""
    return named.name.lower().replace("_", "-")


OPERATION_NAMES = {dashed(each): each for each in Operation if each is not Operation.ANY}
RESOURCE_TYPE_NAMES = {dashed(each): each for each in ResourceType if each in OPERATIONS}

_RESOURCES = "headwater.resources"
_OPTIONS = {
    "--topic": (ResourceType.TOPIC, "A topic; may be repeated, as may the next ones."),
    "--group": (ResourceType.GROUP, "A consumer group."),
    "--transactional-id": (ResourceType.TRANSACTIONAL_ID, "A transactional id."),
    "--delegation-token": (ResourceType.DELEGATION_TOKEN, "A delegation token."),
    "--tokens-of": (ResourceType.USER, "The delegation tokens of a user."),
}

Command = TypeVar("Command", bound=Callable[..., object])


class PrincipalType(click.ParamType[str]):
    """`ann` is `User:ann`, and `*` is everybody."""

    name = "NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in ("", f"{USER}:"):
            self.fail("a user has a name", param, ctx)
        return _principal(value)


def _principal(name: str) -> str:
    return f"{USER}:{name.removeprefix(f'{USER}:')}"


def operation_option(name: str, *, multiple: bool = False, required: bool = False) -> Callable[[Command], Command]:
    """Adds --operation, which reaches the command as `name`."""
    return click.option(
        "--operation",
        name,
        type=click.Choice(list(OPERATION_NAMES), case_sensitive=False),
        metavar="OPERATION",
        multiple=multiple,
        required=required,
        help="What is done: read, write, create, delete, alter, describe, all, ...",
    )


class HostType(click.ParamType[str]):
    """An address, or `*`. Names are refused: brokers compare addresses, so that a rule for a name would never fit."""

    name = "ADDRESS"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ipaddress import ip_address

        if value != WILDCARD:
            try:
                ip_address(value)
            except ValueError:
                self.fail(f"{value!r} is not the address of a host, such as 10.0.0.1", param, ctx)
        return value


def resource_options(command: Command) -> Command:
    """Adds --topic, --group and so on. They are not parameters of the command: `resources` reads them."""
    command = click.option(
        "--cluster", is_flag=True, expose_value=False, callback=_keep_cluster, help="The cluster as a whole."
    )(command)
    for option, (resource_type, text) in reversed(_OPTIONS.items()):
        command = click.option(
            option, metavar="NAME", multiple=True, expose_value=False, callback=_keep(resource_type), help=text
        )(command)
    return command


def _keep(resource_type: ResourceType) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], None]:
    def keep(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> None:
        if not all(names):
            raise click.BadParameter("a name is empty", ctx, param)
        if resource_type is ResourceType.USER:
            names = tuple(name if name == WILDCARD else _principal(name) for name in names)
        ctx.meta.setdefault(_RESOURCES, []).extend((resource_type, name) for name in names)

    return keep


def _keep_cluster(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        ctx.meta.setdefault(_RESOURCES, []).append((CLUSTER.type, CLUSTER.name))


def resources() -> list[tuple[ResourceType, str]]:
    """The types and names that the options of `resource_options` give."""
    return list(dict.fromkeys(click.get_current_context().meta.get(_RESOURCES, ())))


def check_operation(operation: Operation, resource_type: ResourceType) -> None:
    """A broker accepts a rule about an operation that its resource does not have. It would have no effect."""
    known = OPERATIONS[resource_type]
    if operation not in known and operation is not Operation.ALL:
        raise click.UsageError(
            f"{words(resource_type)} has no operation {dashed(operation)!r}; it has "
            f"{', '.join(sorted(map(dashed, known)))} and all"
        )
