"""A broker process with all that security can switch on: TLS, every mechanism, rules, delegation tokens.

The users `ann` and `admin` are known to every mechanism; `ann` may read and write every topic.
"""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headwater.broker.access.users import upsertions_of
from headwater.client.access import AccessAdmin
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import check
from headwater.client.security.security import read_security
from headwater.endpoint import Endpoint
from headwater.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headwater.security.acl import PatternType, ResourceType
from headwater.security.roles import RoleGrant
from tests.support.broker.processes import BrokerProcess, wait_until
from tests.support.security.authority import TestAuthority
from tests.support.security.logins import MECHANISMS, OAUTHBEARER, SASL_PLAINTEXT, SASL_SSL, SCRAM_512, SSL, Login
from tests.support.security.tokens import Issuer, claims

ANN, ADMIN = "ann", "admin"
PASSWORD, ADMIN_PASSWORD = "tea, with = and \N{SNOWMAN}", "all of it"

_SETTINGS: Mapping[str, str] = {
    "listeners": f"{SSL}://127.0.0.1:0,{SASL_SSL}://127.0.0.1:0,{SASL_PLAINTEXT}://127.0.0.1:0",
    "listener.name.ssl.ssl.client.auth": "required",
    "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,DEFAULT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "headwater",
    "delegation.token.secret.key": "a secret that tokens follow from",
    "authorizer.class.name": "acl",
    "connection.failed.authentication.delay.ms": "10",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}


class SecuredBroker:
    def __init__(self, directory: Path, process: BrokerProcess, authority: TestAuthority, issuer: Issuer) -> None:
        self.directory = directory
        self.process = process
        self.authority = authority
        self.issuer = issuer
        self.server_certificate = directory / "broker.pem"
        self.certificate = authority.issue(ANN)

    def address(self, listener: str) -> str:
        # The first listener is just `kafka`.
        return self.process.addresses["kafka" if listener == SSL else f"kafka.{listener}"]

    def endpoint(self, listener: str) -> Endpoint:
        return Endpoint.parse(self.address(listener))

    # -- logins

    def login(self, protocol: str, mechanism: str = "") -> Login:
        """As ann, with the right credentials."""
        login = Login(self.address(protocol), protocol, self.authority.certificate, mechanism)
        if protocol == SSL:
            return login.but(certificate=self.certificate)
        if mechanism == OAUTHBEARER:
            return login.but(token=self.token)
        return login.but(user=ANN, password=PASSWORD)

    @property
    def administrator(self) -> Login:
        return self.login(SASL_SSL, SCRAM_512).but(user=ADMIN, password=ADMIN_PASSWORD)

    def token(self, **changes: object) -> str:
        """A JSON Web Token for ann, `claims` of which are changed."""
        return self.issuer.token(claims(self.now_s(), **changes))

    def now_s(self) -> int:
        return int(time.time())

    # -- administration

    def cluster(self, login: Login | None = None) -> Cluster:
        login = login or self.administrator
        return Cluster(login.bootstrap_servers, security=read_security(login.properties()))

    def set_password(self, user: str, password: str) -> None:
        upsertions = [
            ScramCredentialUpsertion(
                name=user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=each.salt,
                salted_password=each.salted_password,
            )
            for each in upsertions_of(user, password)
        ]
        self._alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions))

    def delete_user(self, user: str) -> None:
        deletions = [ScramCredentialDeletion(name=user, mechanism=each) for each in (1, 2)]
        self._alter(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        def read(response: AlterUserScramCredentialsResponse) -> None:
            for each in response.results:
                check(each.error_code, each.user, each.error_message)

        with self.cluster() as cluster:
            cluster.ask_controller(request, AlterUserScramCredentialsResponse, read)

    def grant(self, user: str, role: str) -> None:
        self._change_grant(AccessAdmin.grant, user, role)

    def revoke(self, user: str, role: str) -> None:
        self._change_grant(AccessAdmin.revoke, user, role)

    def _change_grant(self, change: Callable[[AccessAdmin, RoleGrant], None], user: str, role: str) -> None:
        with self.cluster() as cluster:
            change(AccessAdmin(cluster), RoleGrant(role, f"User:{user}", ResourceType.ANY, "*", PatternType.LITERAL))

    def create_topic(self, name: str) -> str:
        with self.cluster() as cluster:
            Admin(cluster).create_topic(name, partition_count=1)
        return name

    # -- what the broker says

    def wait_for_log(self, text: str, count: int = 1) -> None:
        wait_until(lambda: self.process.log.count(text) >= count, f"the log never has {text!r}:\n{self.process.log}")


@contextmanager
def secured_broker(directory: Path, settings: Mapping[str, str] = {}) -> Generator[SecuredBroker]:
    """At the end the broker must still run, and stop when asked to."""
    authority, issuer = TestAuthority(directory), Issuer()
    keys, password = directory / "jwks.json", directory / "admin-password"
    keys.write_bytes(issuer.jwks("RS256", "ES256"))
    password.write_text(f"{ADMIN_PASSWORD}\n")
    given = {
        **_SETTINGS,
        "ssl.keystore.location": str(authority.issue_server()),
        "ssl.truststore.location": str(authority.certificate),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "headwater.admin.password.file": str(password),
        **settings,
    }
    with BrokerProcess(directory / "data", given) as process:
        broker = SecuredBroker(directory, process, authority, issuer)
        broker.set_password(ANN, PASSWORD)
        for role in ("reader", "writer"):
            broker.grant(ANN, role)
        yield broker
        assert process.stop() == 0
