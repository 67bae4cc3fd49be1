"""What the schema registry refuses: by the error codes of Confluent's API, and in its words."""

from headwater.errors import ErrorCode, HeadwaterError

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
SUBJECT_CONFIG_NOT_SET = 40408
SUBJECT_MODE_NOT_SET = 40409
INCOMPATIBLE = 409
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_LEVEL = 42203
INVALID_MODE = 42204
NOT_PERMITTED = 42205
REFERENCE_EXISTS = 42206
INVALID_SUBJECT = 42208
SCHEMA_TOO_LARGE = 42209
INVALID_RULE_SET = 42210
CONTEXT_NOT_EMPTY = 42211
STORE_ERROR = 50001


class RegistryRefusal(HeadwaterError):
    """`number` is Confluent's error code; its first three digits are the HTTP status."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number
        # Whole: the messages of an incompatible schema are longer than what a log or Kafka's replies should have.
        self.message = message

    @property
    def status(self) -> int:
        return self.number if self.number < 1000 else self.number // 100


def subject_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryRefusal:
    return RegistryRefusal(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(identifier: int | str | None = None) -> RegistryRefusal:
    named = "" if identifier is None else f" {identifier}"
    return RegistryRefusal(SCHEMA_NOT_FOUND, f"Schema{named} not found")


def subject_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        SUBJECT_SOFT_DELETED, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        SUBJECT_NOT_SOFT_DELETED, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        VERSION_SOFT_DELETED,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        VERSION_NOT_SOFT_DELETED,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def config_not_set(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        SUBJECT_CONFIG_NOT_SET, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def mode_not_set(subject: str) -> RegistryRefusal:
    return RegistryRefusal(SUBJECT_MODE_NOT_SET, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> RegistryRefusal:
    return RegistryRefusal(
        INCOMPATIBLE,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
        f"[{', '.join(messages)}]",
    )


def invalid_schema(problem: str) -> RegistryRefusal:
    return RegistryRefusal(INVALID_SCHEMA, problem)


def invalid_version(version: str) -> RegistryRefusal:
    return RegistryRefusal(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def not_permitted(problem: str) -> RegistryRefusal:
    return RegistryRefusal(NOT_PERMITTED, problem)


def reference_exists(subject: str, version: int) -> RegistryRefusal:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryRefusal(REFERENCE_EXISTS, f"One or more references exist to the schema {key}.")
