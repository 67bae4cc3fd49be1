"""`headwater schema`: the schemas of a registry. Its commands are in `subcommands/schema_*.py`."""

import click

from headwater.cli.lazy_group import LazyCommand, LazyGroup

_VERSIONS = "headwater.cli.subcommands.schema_versions"
_COMPARISON = "headwater.cli.subcommands.schema_comparison"
_SETTINGS = "headwater.cli.subcommands.schema_settings"

COMMANDS = {
    "register": LazyCommand(_VERSIONS, "Register a schema as the next version of a subject."),
    "list": LazyCommand(_VERSIONS, "List subjects, or the versions of one.", "list_versions"),
    "show": LazyCommand(_VERSIONS, "Show a schema, by its subject or by its id."),
    "check": LazyCommand(_COMPARISON, "Check whether a schema may become the next version."),
    "diff": LazyCommand(_COMPARISON, "Show how two schemas differ, and which of them reads the other's records."),
    "delete": LazyCommand(_VERSIONS, "Delete a version or a subject."),
    "config": LazyCommand(_SETTINGS, "Show or change the compatibility level and other settings."),
    "mode": LazyCommand(_SETTINGS, "Show or change whether schemas may be registered."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def schema() -> None:
    """Work with a schema registry: Headwater's, Confluent's, Karapace, or another with the same API.

    The registry is --registry (HEADWATER_REGISTRY), or schema.registry.url in the file of --client-config, or the one
    at http://127.0.0.1:8081. That file may also have basic.auth.user.info=USER:PASSWORD, bearer.auth.token, and
    schema.registry.ssl.ca.location, .certificate.location and .key.location.

    \b
    Examples:
      headwater schema register orders-value order.avsc
      headwater schema check orders-value order.avsc
      headwater schema diff orders-value 1 2
    """
