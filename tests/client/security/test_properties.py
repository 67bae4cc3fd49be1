from pathlib import Path

import pytest

from headwater.client.security.properties import BYTES_MAX, read_properties
from headwater.errors import ConfigError


def read(directory: Path, content: str | bytes) -> dict[str, str]:
    file = directory / "client.properties"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_properties(file)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("  a = b c ", "a", "b c "),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a", "a", ""),
        ("a==b", "a", "=b"),
        (r"a\=b\ c=d", "a=b c", "d"),
        (r"a=b\\", "a", "b\\"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=1\\n\\\n  #2", "a", "1\n#2"),
        (r"a=\t\r\f\x", "a", "\t\r\fx"),
        (r"a=\u00e9\ud83c\udf75", "a", "é🍵"),
        ("a=é", "a", "é"),
        ("a=b\\", "a", "b"),
        ("a=b\r\n", "a", "b"),
    ],
)
def test_lines_are_read_as_java_does(tmp_path: Path, line: str, name: str, value: str) -> None:
    assert read(tmp_path, line) == {name: value}


def test_comments_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    assert read(tmp_path, "# a=1\n\n  ! b=2\\\nc=3\n \t\nd=4") == {"c": "3", "d": "4"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a=\xff", "is not UTF-8"),
        (rb"a=\ud83c", "is not UTF-8"),
        (b"a=1\na=2", "a is set twice"),
        (b"#" * (BYTES_MAX + 1), "larger than 1048576 bytes"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"client\.properties.*{complaint}"):
        read(tmp_path, content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties: No such file"):
        read_properties(tmp_path / "none.properties")
