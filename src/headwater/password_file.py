"""A password in a file or a pipe: one line, bounded. Never part of an error."""

from pathlib import Path

from headwater.errors import ConfigError

PASSWORD_BYTES_MAX = 1024


def read_password(file: Path, setting: str) -> str:
    """The password in a file, without the end of its line. `setting` names the file's setting or option in errors."""
    try:
        with file.open("rb") as opened:
            content = opened.read(PASSWORD_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{setting}: {file}: {error.strerror}") from None
    return decode_password(content, f"{setting}: {file}")


def decode_password(content: bytes, source: str) -> str:
    try:
        password = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{source} is not UTF-8") from None
    if len(content) > PASSWORD_BYTES_MAX or not password or not password.isprintable():
        raise ConfigError(f"{source} has no password: one line of up to {PASSWORD_BYTES_MAX} bytes")
    return password
