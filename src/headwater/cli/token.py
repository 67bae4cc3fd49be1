"""`headwater token`: create, list, renew and end delegation tokens."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.access_options import PrincipalType
from headwater.cli.duration import Duration
from headwater.cli.options import bootstrap_option, client_settings, connect, time_text
from headwater.cli.output import format_option, show
from headwater.errors import ConfigError

if TYPE_CHECKING:
    from headwater.client.tokens import DelegationToken

_COLUMNS = ("token_id", "owner", "requester", "renewers", "issued", "expires", "max")


@click.group()
def token() -> None:
    """Create, list, renew and end delegation tokens.

    Who has a token acts as its owner until it expires, without the owner's password: for jobs and workers. A token is
    used with SCRAM: its id is the user name, its HMAC the password, and the JAAS option tokenauth="true" says that it
    is one. The broker needs delegation.token.secret.key.
    """


@token.command()
@click.option("--owner", type=PrincipalType(), help="For whom; by default yourself.")
@click.option("--renewer", "renewers", type=PrincipalType(), multiple=True, help="Who may renew it, too; repeatable.")
@click.option(
    "--max-lifetime", "max_lifetime_ms", type=Duration(), help="How long it can live, by default as the broker says."
)
@click.option(
    "--properties",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the settings of a client that uses the token to this new file, and do not show the HMAC.",
)
@format_option
@bootstrap_option
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    max_lifetime_ms: int | None,
    properties: Path | None,
    format: str,
    bootstrap: str,
) -> None:
    """Create a token. Its HMAC is a password: keep it secret, or use --properties.

    \b
    Examples:
      headwater token create --max-lifetime 12h --properties job.properties
      headwater topic list --client-config job.properties
      headwater token create --owner ann --renewer ben --format json
    """
    from headwater.client.tokens import BROKER_DEFAULT, TokenAdmin

    if properties is not None and properties.exists():
        raise ConfigError(f"{properties} exists already and is not overwritten (--properties)")
    with connect(bootstrap) as cluster:
        created = TokenAdmin(cluster).create(
            owner=owner,
            renewers=renewers,
            max_lifetime_ms=BROKER_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
        )
    if properties is None:
        show([{**_row(created), "hmac": created.password}], format, (*_COLUMNS, "hmac"))
        return
    _write_properties(properties, created, bootstrap)
    show([_row(created)], format, _COLUMNS)


@token.command("list")
@click.option("--owner", "owners", type=PrincipalType(), multiple=True, help="Only tokens of this owner; repeatable.")
@format_option
@bootstrap_option
def list_tokens(owners: tuple[str, ...], format: str, bootstrap: str) -> None:
    """List the valid tokens that you own, asked for, or may renew or describe. Their HMACs are not shown."""
    from headwater.client.tokens import TokenAdmin

    with connect(bootstrap) as cluster:
        show([_row(each) for each in TokenAdmin(cluster).describe(owners or None)], format, _COLUMNS)


@token.command()
@click.argument("token_id")
@click.option("--for", "period_ms", type=Duration(), help="Until so long from now; by default as the broker says.")
@format_option
@bootstrap_option
def renew(token_id: str, period_ms: int | None, format: str, bootstrap: str) -> None:
    """Renew a token, at most to the end of its longest life (MAX in the list)."""
    from headwater.client.tokens import BROKER_DEFAULT, TokenAdmin

    with connect(bootstrap) as cluster:
        admin = TokenAdmin(cluster)
        expires_ms = admin.renew(admin.find(token_id).hmac, BROKER_DEFAULT if period_ms is None else period_ms)
    show([{"token_id": token_id, "expires": time_text(expires_ms)}], format)


@token.command()
@click.argument("token_id")
@click.option("--after", "period_ms", type=Duration(), help="Let it end so long from now, instead of at once.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def expire(token_id: str, period_ms: int | None, yes: bool, format: str, bootstrap: str) -> None:
    """End a token. Connections that were made with it stay open until the token would have expired."""
    from headwater.client.tokens import AT_ONCE, TokenAdmin

    with connect(bootstrap) as cluster:
        admin = TokenAdmin(cluster)
        found = admin.find(token_id)
        if not yes and sys.stdin.isatty():
            click.confirm(f"End the token {token_id!r} of {found.owner}?", abort=True)
        expires_ms = admin.expire(found.hmac, AT_ONCE if period_ms is None else period_ms)
    show([{"token_id": token_id, "expires": time_text(expires_ms)}], format)


def _row(token: "DelegationToken") -> dict[str, object]:
    return {
        "token_id": token.id,
        "owner": str(token.owner),
        "requester": None if token.requester is None else str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issued": time_text(token.issued_ms),
        "expires": time_text(token.expires_ms),
        "max": time_text(token.max_ms),
    }


def _write_properties(file: Path, token: "DelegationToken", bootstrap: str) -> None:
    """The settings with which this command reached the broker, with the token in place of the user."""
    from headwater.client.security.properties import escaped

    settings = {name: value for name, value in client_settings(bootstrap).items() if not name.startswith("sasl.")}
    is_encrypted = settings.get("security.protocol", "").upper().endswith("SSL")
    settings["security.protocol"] = "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT"
    settings["sasl.mechanism"] = "SCRAM-SHA-512"
    settings["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.id}" password="{token.password}" tokenauth="true";'
    )
    text = "".join(f"{name}={escaped(value)}\n" for name, value in settings.items())
    # Readable by us alone from the first byte on.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:  # noqa: PTH123 (a path cannot be opened with a mode)
        opened.write(text)
