"""Administration of users: their SCRAM credentials. Passwords are salted here, so that no broker sees them."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.errors import Refused, check, only
from headwater.errors import ConfigError, ErrorCode
from headwater.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headwater.protocol.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from headwater.security.scram import SALT_BYTES, salted_password
from headwater.security.scram_keys import BY_NUMBER, ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS


class ScramCredentialInfo(NamedTuple):
    mechanism: str
    iterations: int


class UserAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe_users(self, names: Collection[str] | None = None) -> Mapping[str, Sequence[ScramCredentialInfo]]:
        """The credentials of these users, or of all. A user that does not exist is left out."""
        if names is not None and not names:
            return {}
        users = None if names is None else [UserName(name=name) for name in dict.fromkeys(names)]
        request = DescribeUserScramCredentialsRequest(users=users)

        def read(
            response: DescribeUserScramCredentialsResponse,
        ) -> Mapping[str, Sequence[ScramCredentialInfo]]:
            check(response.error_code, "the users", response.error_message)
            found: dict[str, Sequence[ScramCredentialInfo]] = {}
            for result in response.results:
                if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                    continue
                check(result.error_code, f"user {result.user!r}", result.error_message)
                found[result.user] = [
                    ScramCredentialInfo(_mechanism_name(info.mechanism), info.iterations)
                    for info in result.credential_infos
                ]
            return found

        return self._cluster.ask_controller(request, DescribeUserScramCredentialsResponse, read)

    def set_password(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Collection[str] = tuple(MECHANISMS),
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Set the password of a user, who is created if need be. Credentials for other mechanisms stay as they are."""
        if not password:
            raise ConfigError("a password must not be empty")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ConfigError(f"{iterations} iterations; brokers accept {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        upsertions: list[ScramCredentialUpsertion] = []
        for mechanism in (MECHANISMS[each] for each in dict.fromkeys(mechanisms)):
            salt = secrets.token_bytes(SALT_BYTES)
            salted = salted_password(mechanism.digest, password.encode(), salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=name,
                    mechanism=mechanism.number,
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        self._alter(name, upsertions=upsertions)

    def delete_user(self, name: str) -> None:
        """Delete all credentials of a user."""
        credentials = self.describe_users([name]).get(name)
        if not credentials:
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r}", f"there is no user {name!r}")
        self._alter(
            name,
            deletions=[
                ScramCredentialDeletion(name=name, mechanism=MECHANISMS[each.mechanism].number)
                for each in credentials
                if each.mechanism in MECHANISMS
            ],
        )

    def _alter(
        self,
        name: str,
        *,
        upsertions: Sequence[ScramCredentialUpsertion] = (),
        deletions: Sequence[ScramCredentialDeletion] = (),
    ) -> None:
        request = AlterUserScramCredentialsRequest(deletions=[*deletions], upsertions=[*upsertions])

        def read(response: AlterUserScramCredentialsResponse) -> None:
            result = only(response.results)
            check(result.error_code, f"user {name!r}", result.error_message)

        self._cluster.ask_controller(request, AlterUserScramCredentialsResponse, read)


def _mechanism_name(number: int) -> str:
    known = BY_NUMBER.get(number)
    return f"mechanism {number}" if known is None else known.name
