"""Headers on both sides, byte for byte against kio."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as KioResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeaderV1

from headwater.errors import ProtocolError
from headwater.protocol.messages.cluster.api_versions import ApiVersionsResponse
from headwater.protocol.messages.records.fetch import FetchRequest, FetchResponse
from headwater.protocol.wire.codec import (
    RequestHeader,
    read_request_header,
    read_response_header,
    response_header_version,
    write_request_header,
    write_response_header,
)
from tests.protocol.kio_oracle import kio_encode

FLEXIBLE_FROM = {1: 12, 17: None, 18: 3}

int32s = st.integers(-(2**31), 2**31 - 1)


@given(version=st.sampled_from(FetchRequest.versions), correlation_id=int32s, client_id=st.none() | st.text(max_size=9))
def test_request_headers_agree_with_kio(version: int, correlation_id: int, client_id: str | None) -> None:
    header_class: Any = KioRequestHeaderV2 if version >= 12 else KioRequestHeaderV1
    theirs = header_class(
        request_api_key=1, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    out = bytearray()
    write_request_header(out, FetchRequest, version, correlation_id, client_id)
    assert out == kio_encode(theirs)

    expected = RequestHeader(1, version, correlation_id, client_id, len(out))
    assert read_request_header(memoryview(out + b"body"), FLEXIBLE_FROM) == expected
    assert read_request_header(bytes(out), FLEXIBLE_FROM) == expected


@given(version=st.sampled_from(FetchResponse.versions), correlation_id=int32s)
def test_response_headers_agree_with_kio(version: int, correlation_id: int) -> None:
    header_class: Any = KioResponseHeaderV1 if version >= 12 else KioResponseHeaderV0
    out = bytearray()
    write_response_header(out, FetchResponse, version, correlation_id)
    assert out == kio_encode(header_class(correlation_id=correlation_id))
    assert read_response_header(memoryview(out + b"body"), FetchResponse, version) == (correlation_id, len(out))


@pytest.mark.parametrize("version", ApiVersionsResponse.versions)
def test_the_response_of_api_versions_always_has_the_first_header(version: int) -> None:
    assert response_header_version(ApiVersionsResponse, version) == 0
    out = bytearray()
    write_response_header(out, ApiVersionsResponse, version, 5)
    assert out == b"\x00\x00\x00\x05"
    assert read_response_header(out, ApiVersionsResponse, version) == (5, 4)


@pytest.mark.parametrize("api_key", [17, 999])
def test_a_request_of_an_inflexible_or_unknown_api_has_no_tags(api_key: int) -> None:
    data = api_key.to_bytes(2, "big") + b"\x00\x01" + b"\x00\x00\x00\x07" + b"\x00\x01c"
    assert read_request_header(data, FLEXIBLE_FROM) == RequestHeader(api_key, 1, 7, "c", len(data))


def test_unknown_tags_in_headers_are_skipped() -> None:
    request = b"\x00\x01\x00\x0c\x00\x00\x00\x07\xff\xff" + b"\x01\x05\x02zz"
    assert read_request_header(request, FLEXIBLE_FROM).body_position == len(request)
    assert read_response_header(b"\x00\x00\x00\x07\x01\x05\x02zz", FetchResponse, 12) == (7, 9)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends early"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\x00", "ends early"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\xff\xff", "ends early"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x05ab", "client id runs past the end"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\xff\xfe", "negative length"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x01\xff\x00", "utf-8"),
        (b"\x00\x01\x00\x0c\x00\x00\x00\x07\xff\xff\x01\x00\x7f", "tagged field runs past the end"),
    ],
)
def test_malformed_request_headers_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"request header: .*{reason}"):
        read_request_header(data, FLEXIBLE_FROM)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00", "ends early"),
        (b"\x00\x00\x00\x07", "ends early"),
        (b"\x00\x00\x00\x07\x01\x00\x7f", "tagged field runs past the end"),
    ],
)
def test_malformed_response_headers_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"response header: .*{reason}"):
        read_response_header(data, FetchResponse, 12)
