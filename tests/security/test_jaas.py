import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.security.jaas import TEXT_LENGTH_MAX, parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_module_and_options_are_found() -> None:
    login = parse_jaas(f'{SCRAM} required username="ann" password="tea";')

    assert login.module == "ScramLoginModule"
    assert login.options == {"username": "ann", "password": "tea"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"a;b = c"', "a;b = c"),
        (r'"say \"tea\" \\"', r'say "tea" \ '.strip()),
        ("'it''", None),
        ("'single \"quoted\"'", 'single "quoted"'),
        ("plain_word-1", "plain_word-1"),
        (r'"\101\tb"', "A\tb"),
        (r'"\é"', "é"),
        ('""', ""),
    ],
)
def test_values_are_quoted_as_java_reads_them(written: str, meant: str | None) -> None:
    text = f"{SCRAM} Required\n\tpassword = {written} ; "
    if meant is None:
        with pytest.raises(ConfigError):
            parse_jaas(text)
    else:
        assert parse_jaas(text).options == {"password": meant}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not of the form"),
        (SCRAM, "is not of the form"),
        (f"{SCRAM} always password=secret;", "is not of the form"),
        ("; required password=secret;", "is not of the form"),
        (f"{SCRAM} required password=secret", "does not end in a semicolon"),
        (f"{SCRAM} required password=secret; {SCRAM} required;", "more than one login module"),
        (f"{SCRAM} required username=ann password;", "option number 2"),
        (f"{SCRAM} required password secret x;", "option number 1"),
        (f"{SCRAM} required password==;", "option number 1"),
        (f'{SCRAM} required password="secret;', "character 75"),
        ("x" * (TEXT_LENGTH_MAX + 1), "more than 65536"),
    ],
)
def test_errors_do_not_contain_the_password(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)


@given(st.text())
def test_any_password_survives_quoting(password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert parse_jaas(f'{SCRAM} required password="{escaped}";').options["password"] == password
