"""What tests of SASL listeners share with their fixtures."""

from collections.abc import Callable
from typing import TypeAlias

from tests.support.security.raw_sasl import RawSasl

PASSWORD = "tea"
# Connects as ann, with a mechanism, and changes of her token's claims.
Connect: TypeAlias = Callable[..., RawSasl]
