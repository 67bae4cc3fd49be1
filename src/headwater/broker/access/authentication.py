"""How clients prove who they are, for every listener: an exchange of the mechanism that the client has chosen.

The listener passes the client's messages to the exchange, and gives `finish` the work that belongs in a thread.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from headwater.broker.access.issuer_keys import IssuerKeys
from headwater.broker.access.passwords import Passwords, listed_users
from headwater.broker.access.tokens import Tokens
from headwater.broker.access.users import Users
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.security.mechanisms import OAUTHBEARER, PLAIN, Exchange, Failure, Success, Work
from headwater.security.oauth_bearer import OAuthBearerServer
from headwater.security.plain import PlainServer
from headwater.security.scram import NONCE_BYTES, Account, ScramServer
from headwater.security.scram_keys import MECHANISMS, ScramMechanism

# Makes an exchange of one mechanism.
BeginExchange = Callable[[], Exchange]


class Authentication:
    def __init__(self, users: Users, tokens: Tokens, config: BrokerConfig, clock: Clock) -> None:
        self._users = users
        self._tokens = tokens
        self._config = config
        self._clock = clock
        self._passwords = Passwords(users)
        self._issuer_keys: IssuerKeys | None = None
        # Made with the first password: a broker without PLAIN has no such threads.
        self._threads: ThreadPoolExecutor | None = None

    async def start(self) -> None:
        if OAUTHBEARER in self._config.mechanisms_in_use:
            self._issuer_keys = IssuerKeys(self._config, self._clock)
            await self._issuer_keys.start()

    def stop(self) -> None:
        if self._issuer_keys is not None:
            self._issuer_keys.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def mechanisms(self, config: BrokerConfig, enabled: Iterable[str]) -> Mapping[str, BeginExchange]:
        """The mechanisms that a listener with these settings has enabled, in their order."""
        begin: dict[str, BeginExchange] = {name: self._scram(each) for name, each in MECHANISMS.items()}
        begin[PLAIN] = self._plain(config)
        if self._issuer_keys is not None:
            validate = self._issuer_keys.validate
            begin[OAUTHBEARER] = lambda: OAuthBearerServer(validate)
        return {name: begin[name] for name in enabled}

    async def finish(self, work: Work) -> Success | Failure:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._config.headwater_password_threads, "headwater-password")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work.run)

    def _plain(self, config: BrokerConfig) -> BeginExchange:
        listed = listed_users(config.plain_sasl_jaas_config)
        passwords = self._passwords
        return lambda: PlainServer(lambda name, password: passwords.verify(name, password, listed))

    def _scram(self, mechanism: ScramMechanism) -> BeginExchange:
        users, tokens = self._users, self._tokens

        def find(name: str, is_token: bool) -> Account:
            if is_token:
                return tokens.account(name, mechanism) or users.unknown_account(name, mechanism)
            return users.account(name, mechanism)

        # The URL-safe form has no comma, which would separate attributes.
        return lambda: ScramServer(mechanism, find, secrets.token_urlsafe(NONCE_BYTES))
