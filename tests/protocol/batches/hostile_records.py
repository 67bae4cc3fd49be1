"""Records that no honest encoder writes, and payloads that hold them."""

from hypothesis import strategies as st

from tests.support.protocol.record_variants import CONTENTS, VARIANTS


def varint(value: int) -> bytes:
    """An encoder of the tests' own, which also writes what no honest encoder does."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def frame(body: bytes) -> bytes:
    return varint(len(body)) + body


def body(
    *,
    timestamp_delta: bytes = b"\x00",
    offset_delta: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\x00",
) -> bytes:
    return b"\x00" + timestamp_delta + offset_delta + key + value + headers


@st.composite
def hostile_payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Random bytes, records of random fields, and good payloads with some bytes changed."""
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return draw(st.binary(max_size=80)), draw(st.integers(-2, 12))
    if kind == 1:
        numbers = st.integers(-3, 40).map(varint) | st.integers(-(2**64), 2**64).map(varint) | st.binary(max_size=11)
        bodies = st.lists(numbers, max_size=10).map(lambda parts: b"\x00" + b"".join(parts))
        payload = b"".join(draw(st.lists(bodies.map(frame), max_size=4)))
        return payload, draw(st.integers(0, 4))
    contents = draw(st.lists(CONTENTS, min_size=1, max_size=4))
    made = [VARIANTS[0].Record(index, *content) for index, content in enumerate(contents)]
    payload = VARIANTS[0].encode(made, 0, 0)
    for _ in range(draw(st.integers(0, 3))):
        payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    return bytes(payload[: draw(st.integers(0, len(payload)))]), len(made) + draw(st.integers(-1, 1))
