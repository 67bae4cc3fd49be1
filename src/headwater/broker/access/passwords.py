"""Verifies passwords that clients send as such (PLAIN): with the SCRAM credential of the user, or with the users that a
setting lists.

The thousands of iterations of a credential are computed in a thread, once: a password that was right is remembered by
a keyed hash with a key of this process. Whether a user exists makes no difference to the time that a refusal takes.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping

from headwater.broker.access.users import Users
from headwater.security.jaas import parse_jaas
from headwater.security.mechanisms import Failure, Step, Success, Work
from headwater.security.principals import user as user_principal
from headwater.security.scram import is_password

VERIFIED_MAX = 10_000
_USER_OPTION = "user_"


class Passwords:
    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        # Hashes of user, password and the credential that verified it, so that a new password makes them worthless.
        # The oldest use comes first.
        self._verified: OrderedDict[bytes, None] = OrderedDict()

    def verify(self, name: str, password: str, listed: Mapping[str, str]) -> Step:
        """`listed` are passwords that a setting has, by user: they count beside that of the catalog."""
        mechanism, keys = self._users.password_keys(name)
        success = Success(user_principal(name))
        of_setting = listed.get(name, "")
        parts = (name.encode(), password.encode(), keys.stored_key, of_setting.encode())
        remembered = hmac.digest(self._key, b"".join(b"%d:%s" % (len(part), part) for part in parts), "sha256")
        if remembered in self._verified:
            self._verified.move_to_end(remembered)
            return success

        def run() -> Success | Failure:
            # Both in any case, for the same time.
            is_of_catalog = is_password(mechanism.digest, password.encode(), keys)
            is_listed = hmac.compare_digest(password.encode(), of_setting.encode()) and name in listed
            if not (is_of_catalog or is_listed):
                return Failure("unknown user or wrong password", name)
            self._verified[remembered] = None
            return success

        while len(self._verified) >= VERIFIED_MAX:
            self._verified.popitem(last=False)
        return Work(run)


def listed_users(jaas: str | None) -> Mapping[str, str]:
    """The users that a JAAS text lists for Kafka's PlainLoginModule: `user_ann="tea"`."""
    options = {} if jaas is None else parse_jaas(jaas).options
    return {
        name.removeprefix(_USER_OPTION): password for name, password in options.items() if name.startswith(_USER_OPTION)
    }
