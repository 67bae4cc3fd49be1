"""`headwater tls`: certificates for trying things out."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.output import format_option
from headwater.cli.output import show as show_rows

if TYPE_CHECKING:
    from headwater.certificate_authority import CertificateAuthority

_DAYS = 365

_directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default="headwater-tls",
    show_default=True,
    help="Where the files are.",
)
_days_option = click.option(
    "--days", type=click.IntRange(1, 3650), default=_DAYS, show_default=True, help="How long the certificate is valid."
)


@click.group()
def tls() -> None:
    """Make certificates for trying things out, and show certificates."""


@tls.command()
@_directory_option
@click.option(
    "--host",
    "hosts",
    metavar="HOST",
    multiple=True,
    help="A name or an address by which clients reach the broker, beside those of this machine; may be repeated.",
)
@_days_option
def init(directory: Path, hosts: tuple[str, ...], days: int) -> None:
    """Make a certificate authority and a certificate for a broker.

    Prints the settings of a broker that uses them. `headwater tls client NAME` makes certificates for clients.
    """
    authority = _authority(directory)
    authority.create()
    broker = authority.issue_server(hosts, days)
    click.echo(f'listeners = "SSL://127.0.0.1:9093"\nssl.keystore.location = "{broker.absolute()}"')
    click.echo("# Only clients with a certificate of this authority:")
    click.echo(f'ssl.truststore.location = "{authority.certificate.absolute()}"\nssl.client.auth = "required"')


@tls.command()
@click.argument("name")
@_directory_option
@_days_option
def client(name: str, directory: Path, days: int) -> None:
    """Make a certificate for the user NAME, in ACLs `User:CN=NAME`.

    Prints the settings of a client that uses it.
    """
    authority = _authority(directory)
    file = authority.issue_client(name, days).absolute()
    click.echo(f"security.protocol=SSL\nssl.ca.location={authority.certificate.absolute()}")
    click.echo(f"ssl.certificate.location={file}\nssl.key.location={file}")


def _authority(directory: Path) -> "CertificateAuthority":
    with _needing_cryptography():
        from headwater.certificate_authority import CertificateAuthority

    return CertificateAuthority(directory)


@contextmanager
def _needing_cryptography() -> Generator[None]:
    from headwater.errors import ConfigError

    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        raise ConfigError("this needs the package `cryptography`: pip install 'headwater[security]'") from None


@tls.command()
@click.argument("source", metavar="FILE|HOST:PORT")
@format_option
def show(source: str, format: str) -> None:
    """Show the certificates in a file, or the one of a server."""
    with _needing_cryptography():
        from headwater.cli.subcommands.tls_show import shown_certificates

    show_rows(shown_certificates(source), format)
