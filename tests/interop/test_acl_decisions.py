"""Kafka's own authorizer and ours decide the same about thousands of generated rules and questions.

Two kinds of cases are left out. A rule for an IPv6 address counts here in every notation, in Kafka only in Java's. And
Kafka 4.3 loops forever, or fails, on a name that begins with a character before `*`, such as `!orders`, if there is a
rule for another name that begins in the same way.
"""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headwater.security.acl import (
    OPERATIONS,
    Acl,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    canonical_host,
)
from headwater.security.authorizer import AclAuthorizer, Decision
from headwater.security.principals import Principal, parse_principal
from tests.interop import toolchain

pytestmark = pytest.mark.interop

TIMEOUT_S = 180
CASES = 600
QUESTIONS = 60
RULES_MAX = 12

TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
# Not "User:*", a name that Kafka's authorizer fails on.
CLIENTS = ["User:ann", "User:bob", "User:CN=ann,O=a:b", "Group:ann"]
PRINCIPALS = [*CLIENTS, "User:*", "User:an"]
# Java's notation of addresses.
HOSTS = ["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
# The name that Kafka asks about for any resource of a type, prefixes of it and of each other, and what sorts oddly.
NAMES = ["a", "ab", "abc", "abd", "b", "*", "a*", "-", "hardcode", "hard", "hardcodes", "é", "𝄞", "𝄞x", "\uffff"]
OPERATIONS_ASKED = [each for each in Operation if each is not Operation.ANY]
# Small sets, so that rules and questions meet.
OPERATIONS_USUAL = [Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.ALL]


class Question(NamedTuple):
    """Without a name it is about any resource of the type."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str | None


class Case(NamedTuple):
    super_users: list[str]
    is_open: bool
    acls: list[Acl]
    # Added and removed again before the questions.
    removed: list[Acl]
    questions: list[Question]

    def told(self) -> str:
        return json.dumps(
            {
                "super_users": ";".join(self.super_users),
                "open": str(self.is_open).lower(),
                "acls": [[part if isinstance(part, str) else part.name for part in acl] for acl in self.acls],
                "questions": [
                    [each.principal, each.host, each.operation.name, each.resource_type.name, each.name]
                    for each in self.questions
                ],
            }
        )


def generated(chance: random.Random) -> Case:
    def operation() -> Operation:
        return chance.choice(OPERATIONS_USUAL if chance.random() < 0.8 else OPERATIONS_ASKED)

    def rule() -> Acl:
        return Acl(
            chance.choice(TYPES),
            chance.choice(NAMES),
            chance.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            chance.choice(PRINCIPALS),
            chance.choice([*HOSTS, "*", "*", "*"]),
            operation(),
            Permission.DENY if chance.random() < 0.3 else Permission.ALLOW,
        )

    def question() -> Question:
        name = None if chance.random() < 0.2 else chance.choice(NAMES)
        return Question(chance.choice(CLIENTS), chance.choice(HOSTS), operation(), chance.choice(TYPES), name)

    rules = {rule() for _ in range(chance.randint(0, RULES_MAX))}
    removed = {rule() for _ in range(chance.randint(0, 3))} - rules
    return Case(
        ["User:bob"] if chance.random() < 0.2 else [],
        chance.random() < 0.4,
        sorted(rules),
        sorted(removed),
        [question() for _ in range(QUESTIONS)],
    )


EVERYWHERE = Acl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:ann", "*", Operation.WRITE, Permission.ALLOW)
DENIED_PREFIX = EVERYWHERE._replace(pattern=PatternType.PREFIXED, permission=Permission.DENY)
# What chance would hardly find: the wildcard allows, although its name begins with a prefix that is denied.
WILDCARD_AND_PREFIX = Case(
    [],
    is_open=False,
    acls=[EVERYWHERE, DENIED_PREFIX, DENIED_PREFIX._replace(name="hardcode")],
    removed=[],
    questions=[Question("User:ann", HOSTS[0], Operation.WRITE, ResourceType.TOPIC, name) for name in (None, "*", "a")],
)


def decisions(case: Case) -> list[Decision]:
    authorizer = AclAuthorizer(case.super_users, allows_without_rules=case.is_open)
    for acl in (*case.removed, *case.acls):
        authorizer.add(acl)
    for acl in case.removed:
        authorizer.remove(acl)

    def decide(question: Question) -> Decision:
        principal: Principal = parse_principal(question.principal)
        host = canonical_host(question.host)
        if question.name is None:
            return authorizer.allows_any(principal, host, question.operation, question.resource_type)
        return authorizer.decide(principal, host, question.operation, Resource(question.resource_type, question.name))

    return [decide(question) for question in case.questions]


@pytest.fixture(scope="module")
def kafkas_authorizer(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    return toolchain.kafka_authorizer(tmp_path_factory.mktemp("authorizer"))


def answers(command: Sequence[str], cases: Sequence[Case], directory: Path) -> list[str]:
    given = directory / "cases"
    given.write_text("".join(f"{case.told()}\n" for case in cases))
    with given.open() as lines:
        done = subprocess.run(command, stdin=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kafkas_authorizer_decides_the_same(kafkas_authorizer: Sequence[str], tmp_path: Path) -> None:
    chance = random.Random(17)
    cases = [WILDCARD_AND_PREFIX, *(generated(chance) for _ in range(CASES))]
    _, *found = answers(kafkas_authorizer, cases, tmp_path)
    letters = "".join(found)
    assert min(letters.count("A"), letters.count("D")) > CASES * QUESTIONS / 5, "both occur"
    differences = [
        (case, question, theirs, ours)
        for case, line in zip(cases, found, strict=True)
        for question, theirs, ours in zip(case.questions, line, decisions(case), strict=True)
        if (theirs == "A") is not ours.is_allowed
    ]
    assert differences == []


def test_resource_types_have_kafkas_operations(kafkas_authorizer: Sequence[str], tmp_path: Path) -> None:
    (told,) = answers(kafkas_authorizer, [], tmp_path)
    assert json.loads(told) == {
        resource_type.name: sorted(operation.name for operation in operations)
        for resource_type, operations in OPERATIONS.items()
    }
