"""Results of the coordinators, in which a refusal is a value."""

from typing import TypeVar

from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.errors import HeadwaterError

T = TypeVar("T")


async def granted(outcome: Pending[Outcome[T]]) -> T:
    """The result; a refusal is raised."""
    result = await outcome.wait()
    if isinstance(result, HeadwaterError):
        raise result
    return result
