"""Users and their passwords. The catalog keeps SCRAM credentials alone, which PLAIN is verified with, too."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.broker.ports.metadata import Metadata
from headwater.coordination.access.events import AccessEvent, SaltSecret
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.security.principals import user as user_principal
from headwater.security.scram import SALT_BYTES, Account, fake_keys, keys_of_salted, salted_password
from headwater.security.scram_keys import BY_NUMBER, ITERATIONS_MIN, MECHANISMS, ScramKeys, ScramMechanism

logger = logging.getLogger(__name__)

ADMIN = "admin"
_SECRET_BYTES = 32


class Upsertion(NamedTuple):
    """Sets the credential of a user for one mechanism, by Kafka's number of it. The client has salted the password, so
    that the broker never sees it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class Deletion(NamedTuple):
    user: str
    mechanism: int


class CredentialInfo(NamedTuple):
    mechanism: int
    iterations: int


class Users:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._state = metadata.state.identities
        # Until there is a user, nothing has to outlast a restart.
        self._first_salt_secret = secrets.token_bytes(_SECRET_BYTES)

    # -- what is known

    @property
    def is_empty(self) -> bool:
        return not self._state.users

    def describe(self, users: Iterable[str] | None = None) -> Mapping[str, Sequence[CredentialInfo]]:
        """The credentials of all users, or of those that are named; an unknown one has none."""
        credentials = self._state.credentials
        return {
            name: [
                CredentialInfo(mechanism.number, credentials[name, mechanism.name].keys.iterations)
                for mechanism in MECHANISMS.values()
                if (name, mechanism.name) in credentials
            ]
            for name in (sorted(self._state.users) if users is None else users)
        }

    def account(self, name: str, mechanism: ScramMechanism) -> Account:
        """The account that a client logs in to. An unknown user gets keys that no password has."""
        # Made for known users, too: the time that this takes must not tell them apart.
        unknown = self.unknown_account(name, mechanism)
        credential = self._state.credentials.get((name, mechanism.name))
        return unknown if credential is None else unknown._replace(keys=credential.keys)

    def password_keys(self, name: str) -> tuple[ScramMechanism, ScramKeys]:
        """The keys that a password itself (PLAIN) is verified with."""
        found = (each for each in MECHANISMS.values() if (name, each.name) in self._state.credentials)
        mechanism = next(found, next(iter(MECHANISMS.values())))
        return mechanism, self.account(name, mechanism).keys

    def unknown_account(self, name: str, mechanism: ScramMechanism) -> Account:
        like = self._state.newest_keys.get(mechanism.name)
        salt_bytes, iterations = (SALT_BYTES, ITERATIONS_MIN) if like is None else (len(like.salt), like.iterations)
        secret = self._state.salt_secret or self._first_salt_secret
        return Account(user_principal(name), fake_keys(mechanism, secret, name, salt_bytes, iterations))

    # -- changes

    async def alter(
        self, upsertions: Sequence[Upsertion], deletions: Sequence[Deletion] = ()
    ) -> Mapping[str, HeadwaterError | None]:
        """Change credentials: all that are named of a user, or none of them. Gives what became of each user."""
        commands: dict[str, list[Upsertion | Deletion]] = {}
        added: set[str] = set()
        for command in (*deletions, *upsertions):
            commands.setdefault(command.user, []).append(command)
        outcomes: dict[str, HeadwaterError | None] = {}
        metadata = self._metadata
        async with metadata.change_lock:
            events: list[AccessEvent] = []
            for name, of_user in commands.items():
                try:
                    events += self._decide(of_user, len(added - {name}))
                    outcomes[name] = None
                    if name not in self._state.users:
                        added.add(name)
                except HeadwaterError as error:
                    outcomes[name] = error.kept()
            if events and self._state.salt_secret is None:
                events.append(SaltSecret(self._first_salt_secret))
            await metadata.commit(events)
        for name, error in outcomes.items():
            if error is None:
                logger.info("changed the credentials of user %r", name)
        return outcomes

    async def set_password(
        self,
        name: str,
        password: str,
        mechanisms: Iterable[ScramMechanism] = MECHANISMS.values(),
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Set the password of a user, who is created if need be, for these mechanisms."""
        upsertions = await asyncio.to_thread(lambda: [*upsertions_of(name, password, mechanisms, iterations)])
        error = (await self.alter(upsertions))[name]
        if error is not None:
            raise error

    def _decide(self, commands: Sequence[Upsertion | Deletion], added_count: int) -> Sequence[AccessEvent]:
        mechanisms = [_mechanism(command.mechanism) for command in commands]
        if len(set(mechanisms)) < len(mechanisms):
            raise Refusal(ErrorCode.DUPLICATE_RESOURCE, "a credential cannot be changed twice in the same request")
        return [
            event
            for command, mechanism in zip(commands, mechanisms, strict=True)
            for event in self._decide_one(command, mechanism, added_count)
        ]

    def _decide_one(
        self, command: Upsertion | Deletion, mechanism: ScramMechanism, added_count: int
    ) -> Sequence[AccessEvent]:
        if isinstance(command, Deletion):
            return self._state.decide_remove_credential(command.user, mechanism.name)
        if len(command.salted_password) != mechanism.digest_bytes:
            raise Refusal(
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"a salted password of {len(command.salted_password)} bytes, where {mechanism.name} has "
                f"{mechanism.digest_bytes}",
            )
        keys = keys_of_salted(mechanism.digest, command.salted_password, command.salt, command.iterations)
        return self._state.decide_set_credential(command.user, mechanism.name, keys, added_count=added_count)


def upsertions_of(
    name: str,
    password: str,
    mechanisms: Iterable[ScramMechanism] = MECHANISMS.values(),
    iterations: int = ITERATIONS_MIN,
) -> Iterator[Upsertion]:
    """The credentials of a user, with new salts. Takes milliseconds of computation."""
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism.digest, password.encode(), salt, iterations)
        yield Upsertion(name, mechanism.number, iterations, salt, salted)


def mechanism_name(number: int) -> str:
    mechanism = BY_NUMBER.get(number)
    return f"mechanism {number}" if mechanism is None else mechanism.name


def _mechanism(number: int) -> ScramMechanism:
    mechanism = BY_NUMBER.get(number)
    if mechanism is None:
        raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"SCRAM mechanism {number} is not known")
    return mechanism
