"""The error for a row that cannot be written."""

from headwater.errors import HeadwaterError


class RowRefused(HeadwaterError):
    """A row that is invalid for any broker."""
