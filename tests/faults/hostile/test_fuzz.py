"""Structured fuzzing of every API in every version: 2,000 cases for each against its decoder, fewer over sockets."""

import random
from pathlib import Path

import pytest

from headwater.protocol.wire.codec import Request, decode, encode
from tests.faults.hostile.forging import REQUESTS, Forger
from tests.faults.hostile.fuzzing import fuzz_broker, fuzz_decoder
from tests.support.cases import in_one_test

DECODED = 2000
SENT = 100

each_api = in_one_test(["request_type"], zip(REQUESTS))


@each_api
def test_an_honest_generated_message_survives_the_round_trip(request_type: type[Request]) -> None:
    forger = Forger(random.Random(1))
    for version in request_type.versions:
        for _ in range(10):
            message = decode(request_type, version, forger.honest_body(request_type, version))
            assert encode(decode(request_type, version, encode(message, version)), version) == encode(message, version)


@each_api
def test_every_forged_frame_is_read_or_refused_with_memory_in_proportion_to_its_bytes(
    request_type: type[Request],
) -> None:
    assert fuzz_decoder(request_type, seed=1, count=DECODED).decoded == DECODED


@pytest.mark.parametrize(("seed", "checks_in_threads"), [(0, False), (1, True)])
def test_a_broker_answers_or_closes_and_other_clients_are_not_affected(
    tmp_path: Path, seed: int, checks_in_threads: bool
) -> None:
    figures = fuzz_broker(tmp_path, seed, SENT, checks_in_threads=checks_in_threads)
    assert figures.answered > 10 * len(REQUESTS)
    assert figures.closed > 10 * len(REQUESTS)
