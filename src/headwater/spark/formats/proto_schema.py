"""Turns a user's protobuf schema, the text of a .proto file or a compiled one, into the descriptor of one message."""

import base64
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError
from headwater.spark.formats.decoding import reason_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

# No .proto file matches: it contains a brace or a semicolon.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
# Lines that the compiler logs about itself.
_LOG_LINE: Final = re.compile(r"WARNING: |[IWE]\d{4} ")
_FILE: Final = "schema.proto"
_COMPILE_TIMEOUT_S: Final = 60


def compile_schema(option: str, schema: str) -> bytes:
    """The schema as a FileDescriptorSet that includes all imports."""
    if _BASE64.fullmatch(schema):
        try:
            return base64.b64decode("".join(schema.split()), validate=True)
        except ValueError as error:
            raise ConfigError(f"option {option!r} is neither a .proto file nor base64: {error}") from None
    with tempfile.TemporaryDirectory(prefix="headwater-proto-") as directory:
        return _compile(option, schema, Path(directory))


def _compile(option: str, schema: str, directory: Path) -> bytes:
    import grpc_tools
    from grpc_tools import protoc

    (directory / _FILE).write_text(schema, encoding="utf-8")
    result = directory / "schema.pb"
    known = Path(str(grpc_tools.__file__)).parent / "_proto"
    arguments = [f"-I{directory}", f"-I{known}", "--include_imports", f"--descriptor_set_out={result}", _FILE]
    if protoc.main(["protoc", *arguments]) == 0:
        return result.read_bytes()
    # The compiler wrote its errors to this process's stderr. A second run in a child process captures them.
    errors = subprocess.run(  # noqa: S603 - this interpreter, with arguments of our own
        [sys.executable, "-m", "grpc_tools.protoc", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMPILE_TIMEOUT_S,
    ).stderr
    lines = [line.replace(f"{directory}/", "") for line in errors.splitlines() if not _LOG_LINE.match(line)]
    raise ConfigError(f"option {option!r} does not compile: {'; '.join(lines)}")


def find_message(option: str, descriptors: bytes, name: str | None) -> "Descriptor":
    """The message of that name, with or without its package. Without a name: the schema's only message."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
    except (DecodeError, TypeError, ValueError) as error:
        raise ConfigError(f"option {option!r} is no FileDescriptorSet with its imports: {reason_of(error)}") from None
    imported = {dependency for file in files for dependency in file.dependency}
    offered: list[str] = []
    for file in files:
        if file.name not in imported:
            _list_messages(offered, file.package, file.message_type)
    found = [each for each in offered if name is None or each == name or each.endswith(f".{name}")]
    exact = [each for each in found if each == name]
    if len(exact or found) != 1:
        wanted = f"there is no message {name!r}" if name and not found else "which message?"
        option = option.replace(".schema", ".message")
        raise ConfigError(f"option {option!r}: {wanted} There are: {', '.join(sorted(offered)) or 'none'}")
    return pool.FindMessageTypeByName((exact or found)[0])


def _list_messages(names: list[str], scope: str, messages: Any) -> None:
    """Append the names of `messages` and of the messages nested in them, except the entries of maps."""
    for message in messages:
        if not message.options.map_entry:
            name = f"{scope}.{message.name}" if scope else message.name
            names.append(name)
            _list_messages(names, name, message.nested_type)
