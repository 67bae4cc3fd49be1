"""Secrets are planted through every door of a broker in a process of its own, and looked for wherever they could come
out again: log, audit events, errors, settings, data files, list of processes."""

import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from headwater.certificate_authority import CertificateAuthority
from headwater.client import AccessAdmin, Admin, Cluster, TokenAdmin, UserAdmin, read_security
from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError
from headwater.clock import SystemClock
from headwater.endpoint import Endpoint
from headwater.errors import HeadwaterError
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.security.delegation_token import password_of
from headwater.security.scram import salted_password
from tests.support.cli.commands import Commands
from tests.support.security.tokens import Issuer, claims

BROKER_RESOURCE = 4


class Secured(NamedTuple):
    """A broker in a process of its own, and what it was told in confidence."""

    directory: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[str]
    addresses: Mapping[str, str]
    issuer: Issuer
    # By what they are.
    secrets: dict[str, str | bytes]
    # What the doors answered.
    answers: list[str]

    def plant(self, name: str) -> str:
        secret = f"planted-{name}"
        self.secrets[name] = secret
        return secret

    def login(self, **given: str) -> dict[str, str]:
        settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.directory / "tls" / "ca.pem")}
        return settings | {name.replace("_", "."): value for name, value in given.items()}

    def admin(self) -> Cluster:
        password = str(self.secrets["admin"])
        settings = self.login(sasl_mechanism="SCRAM-SHA-512", sasl_username="admin", sasl_password=password)
        return Cluster(self.addresses["kafka"], security=read_security(settings))

    def try_to(self, action: Callable[[], object]) -> None:
        """Errors are kept, with all that they show of themselves."""
        try:
            self.answers.append(repr(action()))
        except HeadwaterError as error:
            self.answers.append(f"{error} {error!r}")

    def connect(self, settings: Mapping[str, str]) -> None:
        def ask() -> object:
            security = read_security(settings)
            self.answers.append(repr(security))
            with Cluster(self.addresses["kafka"], security=security) as cluster:
                return cluster.metadata()

        self.try_to(ask)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    secrets: dict[str, str | bytes] = {name: f"planted-{name}" for name in ("admin", "key", "listed", "tokens")}
    authority = CertificateAuthority(directory / "tls")
    authority.create()
    identity = authority.issue_server((), 1)
    key = load_pem_private_key(identity.read_bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"planted-key")).decode()
    text = identity.read_text()
    plain, certificate = (text[text.index(f"-----BEGIN {kind}") :] for kind in ("PRIVATE KEY", "CERTIFICATE"))
    plain = plain[: plain.index("-----BEGIN CERTIFICATE")]
    secrets |= {f"line {at} of the key": line for at, line in enumerate(plain.splitlines()[1:-1])}
    issuer = Issuer()
    (directory / "keys.json").write_bytes(issuer.jwks())
    (directory / "password").write_text("planted-admin\n")
    (directory / "headwater.toml").write_text(
        f'''
        listeners = "SASL_SSL://127.0.0.1:0,INLINE://127.0.0.1:0"
        "listener.security.protocol.map" = "SASL_SSL:SASL_SSL,INLINE:SSL"
        "sasl.enabled.mechanisms" = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
        "sasl.oauthbearer.jwks.endpoint.url" = "{(directory / "keys.json").as_uri()}"
        "authorizer.class.name" = "acl"
        "super.users" = "User:CN=admin"
        "headwater.audit.granted" = true
        "headwater.log.level" = "debug"
        "connection.failed.authentication.delay.ms" = 0
        "listener.name.sasl_ssl.ssl.keystore.location" = "{identity}"
        "delegation.token.secret.key" = "planted-tokens"
        "plain.sasl.jaas.config" = 'PlainLoginModule required user_listed="planted-listed";'
        "listener.name.inline.ssl.keystore.key" = """{encrypted}"""
        "listener.name.inline.ssl.keystore.certificate.chain" = """{certificate}"""
        "listener.name.inline.ssl.truststore.location" = "{authority.certificate}"
        "listener.name.inline.ssl.client.auth" = "required"
        '''
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")} | {
        "HEADWATER_ADMIN_PASSWORD_FILE": str(directory / "password"),
        "HEADWATER_LISTENER_NAME_INLINE_SSL_KEY_PASSWORD": "planted-key",
    }
    yield from started(directory, environment, issuer, secrets)


def started(
    directory: Path, environment: Mapping[str, str], issuer: Issuer, secrets: dict[str, str | bytes]
) -> Iterator[Secured]:
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", "serve", "--data-dir", "data"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=directory,
        )
    with process:
        assert process.stdout is not None
        kind, *parts = process.stdout.readline().split() or ["exited"]
        assert kind == "ready", (directory / "log").read_text()
        addresses = dict(part.split("=", 1) for part in parts)
        yield Secured(directory, environment, process, addresses, issuer, secrets, [])
        process.kill()


def go_through_the_doors(secured: Secured) -> None:
    with secured.admin() as cluster:
        assert cluster.metadata().brokers
        log_in_rightly_and_wrongly(secured)
        send_what_is_no_exchange(secured)
        manage_users_and_tokens(secured, cluster)
        change_settings(secured, cluster)
    use_commands(secured)


def log_in_rightly_and_wrongly(secured: Secured) -> None:
    wrong = secured.plant("wrong password")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for name, password in (("admin", str(secured.secrets["admin"])), ("admin", wrong), ("nobody", wrong)):
            secured.connect(secured.login(sasl_mechanism=mechanism, sasl_username=name, sasl_password=password))
    secured.connect(secured.login(sasl_mechanism="PLAIN", sasl_username="listed", sasl_password="planted-listed"))
    now_s = SystemClock().now_ms() // 1000
    for name, given in (("token", claims(now_s)), ("expired token", claims(1))):
        token = secured.issuer.token({**given, "nonce": secured.plant(f"claim of the {name}")})
        secured.secrets[name] = token
        secured.secrets[f"signature of the {name}"] = token.rpartition(".")[2]
        file = secured.directory / "client-token"
        file.write_text(token)
        url = {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
        secured.connect(secured.login(sasl_mechanism="OAUTHBEARER") | url)
        file.write_text(f"{token}x")
        secured.connect(secured.login(sasl_mechanism="OAUTHBEARER") | url)
        file.unlink()
    jaas = f'ScramLoginModule required username="admin" password="{secured.plant("of jaas")}"'
    # Without its semicolon.
    secured.connect(secured.login(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas))
    secured.connect(secured.login(sasl_mechanism="PLAIN", sasl_password=secured.plant("without a name")))


def send_what_is_no_exchange(secured: Secured) -> None:
    tls = read_security(secured.login(security_protocol="SSL"))
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
        secret = secured.plant(f"malformed {mechanism}").encode()
        for message in (
            secret,
            b"\0" + secret,
            b"n,,n=" + secret,
            b"n,,\1auth=Bearer " + secret + b"\1\1",
            secret * 200,
        ):
            endpoint = Endpoint.parse(secured.addresses["kafka"])
            with BrokerConnection(endpoint, security=tls) as connection, suppress(ClientError):
                connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
                answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
                secured.answers.append(repr(answer))


def manage_users_and_tokens(secured: Secured, cluster: Cluster) -> None:
    users, tokens = UserAdmin(cluster), TokenAdmin(cluster)
    password = secured.plant("of ann")
    users.set_password("ann", password)
    secured.try_to(lambda: users.set_password("", password))
    secured.try_to(lambda: users.set_password("b\nb", password))
    secured.try_to(users.describe_users)
    token = tokens.create()
    secured.secrets.update({"HMAC": token.hmac, "HMAC as text": token.password})
    secured.answers.append(repr(token))
    secured.try_to(tokens.describe)
    secured.try_to(lambda: tokens.renew(b64decode(b64encode(b"planted-hmac"))))
    secured.secrets["HMAC of no token"] = b"planted-hmac"
    jaas = f'ScramLoginModule required username="{token.id}" password="{token.password}" tokenauth="true";'
    secured.connect(secured.login(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas))
    secured.connect(
        secured.login(
            sasl_mechanism="SCRAM-SHA-256", sasl_username=token.id, sasl_password=password_of(b"planted-hmac")
        )
    )
    secured.try_to(lambda: tokens.expire(token.hmac))
    secured.try_to(lambda: tokens.expire(token.hmac))


def change_settings(secured: Secured, cluster: Cluster) -> None:
    secret = secured.plant("setting")
    key = f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----"
    for name, value in (
        ("ssl.key.password", secret),
        ("ssl.keystore.key", key),
        ("listener.name.inline.ssl.keystore.key", key),
        ("plain.sasl.jaas.config", f'PlainLoginModule required user_eve="{secret}";'),
        ("plain.sasl.jaas.config", secret),
        ("delegation.token.secret.key", secret),
        ("ssl.key.pasword", secret),
    ):
        for resource_name in ("1", ""):
            change = AlterableConfig(name=name, config_operation=0, value=value)
            resource = AlterConfigsResource(
                resource_type=BROKER_RESOURCE, resource_name=resource_name, configs=[change]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])

            def read(response: IncrementalAlterConfigsResponse) -> None:
                assert response.responses[0].error_code, "it would lie in the data in plain text"
                secured.answers.append(repr(response))

            cluster.ask_controller(request, IncrementalAlterConfigsResponse, read)
    described = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[described], include_synonyms=True, include_documentation=True)
    shown = cluster.ask_any(request, DescribeConfigsResponse, lambda response: response)
    assert {"ssl.key.password", "delegation.token.secret.key", "listener.name.inline.ssl.key.password"} <= {
        entry.name for entry in shown.results[0].configs
    }
    secured.answers.append(repr(shown))
    secured.try_to(lambda: Admin(cluster).create_topic("orders", settings={"retention.ms": "soon"}))
    secured.try_to(lambda: AccessAdmin(cluster).describe_acls())


def use_commands(secured: Secured) -> None:
    file = secured.directory / "client.properties"
    admin = secured.login(
        sasl_mechanism="SCRAM-SHA-512", sasl_username="admin", sasl_password=str(secured.secrets["admin"])
    )
    file.write_text("".join(f"{name}={value}\n" for name, value in admin.items()))
    commands = Commands(secured.addresses["kafka"])
    for arguments, typed in (
        ("user add ben --password-file -", secured.plant("typed")),
        ("user add ben --password-file -", secured.plant("typed again")),
        ("user passwd ben --password-file -", secured.plant("typed\nin two lines")),
        ("user list", ""),
        ("token create --properties job.properties", ""),
        ("token list", ""),
        ("topic list -X sasl.password=" + secured.plant("option"), ""),
        ("audit query --limit 100000", ""),
        ("audit query --limit 100000 --format json", ""),
        ("audit query --limit 100000 --format yaml", ""),
        ("metrics --format prometheus", ""),
    ):
        words = [str(secured.directory / word) if word == "job.properties" else word for word in arguments.split(" ")]
        outcome = commands(*words, "--client-config", str(file), typed=typed.encode())
        secured.answers.append(outcome.output.decode() + outcome.error)
        if arguments.endswith("json"):
            kinds = {event["type"] for event in outcome.rows}
            assert {"auth.success", "auth.failure", "user.change", "token.change", "config.change"} <= kinds


def test_no_secret_comes_out_anywhere(secured: Secured) -> None:
    go_through_the_doors(secured)
    found: dict[str, bytes] = {"an answer": "\n".join(secured.answers).encode()}
    found |= {"the log": (secured.directory / "log").read_bytes()}
    found |= {str(file): file.read_bytes() for file in (secured.directory / "data").rglob("*") if file.is_file()}
    for process in ("self", str(secured.process.pid)):
        found[f"the command line of {process}"] = Path(f"/proc/{process}/cmdline").read_bytes()
    for form in ("table", "json", "yaml"):
        shown = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", "config", "--format", form],
            env=secured.environment,
            cwd=secured.directory,
            capture_output=True,
            check=True,
        )
        found[f"headwater config as {form}"] = shown.stdout + shown.stderr
        assert b"listener.name.inline.ssl.key.password" in shown.stdout
    for mechanism, digest in (("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")):
        # What a client could log in with instead of the password.
        (salt, iterations) = salt_of(secured, "ann", mechanism)
        secured.secrets[f"salted password for {mechanism}"] = salted_password(
            digest, str(secured.secrets["of ann"]).encode(), salt, iterations
        )

    assert b"authentication of" in found["the log"]
    assert sum(map(len, found.values())) > 10_000
    leaked = [
        (name, where)
        for name, secret in secured.secrets.items()
        for where, content in found.items()
        if any(form in content for form in forms_of(secret))
    ]
    assert leaked == []


def salt_of(secured: Secured, user: str, mechanism: str) -> tuple[bytes, int]:
    """The salt and the iterations that the broker tells everyone who asks to log in."""
    tls = read_security(secured.login(security_protocol="SSL"))
    with BrokerConnection(Endpoint.parse(secured.addresses["kafka"]), security=tls) as connection:
        connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        request = SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=nonce".encode())
        answer = bytes(connection.call(request, SaslAuthenticateResponse).auth_bytes)
    parts = dict(part.split(b"=", 1) for part in answer.split(b","))
    return b64decode(parts[b"s"]), int(parts[b"i"])


def forms_of(secret: str | bytes) -> set[bytes]:
    raw = secret.encode() if isinstance(secret, str) else secret
    return {raw, raw.hex().encode(), b64encode(raw).rstrip(b"="), json.dumps(raw.decode("latin-1")).encode()[1:-1]}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ssl.key.password", '"planted"'),
        ("plain.sasl.jaas.config", '"planted"'),
        ("plain.sasl.jaas.config", "'Module required user_ann=planted user_ben'"),
        ("ssl.keystore.key", '"""-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----"""'),
        ("delegation.token.secret.key", '"planted\\u0007"'),
        ("delegation.token.secret.key", "planted"),
        ("delegation.token.secret.key", "['planted', {x = 'planted'}]"),
        ("delegation.token.secret.kye", '"planted"'),
    ],
)
def test_a_broker_that_does_not_start_says_why_without_the_secret(tmp_path: Path, setting: str, value: str) -> None:
    listener = 'listeners = "SSL://127.0.0.1:0"\n"ssl.keystore.certificate.chain" = "x"\n'
    (tmp_path / "headwater.toml").write_text(f'{listener}"{setting}" = {value}\n')
    environment = {name: each for name, each in os.environ.items() if not name.startswith("HEADWATER_")}
    refused = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "serve", "--data-dir", str(tmp_path / "data")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "planted" not in refused.stdout + refused.stderr


def test_a_secret_setting_is_not_taken_from_the_command_line() -> None:
    for name in ("ssl.key.password", "listener.name.x.ssl.keystore.key", "plain.sasl.jaas.config"):
        outcome = Commands("")("serve", "--set", f"{name}=planted")
        assert outcome.code == 2
        assert f"--set {name}: every user of this machine could read the secret" in outcome.error
        assert "planted" not in outcome.error
