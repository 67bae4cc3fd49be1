"""What kept a figure from being better: the client, the broker, the cores that they share, or somebody else.

A figure that the client limits says what the client can do, not what the broker can.
"""

from dataclasses import dataclass

# A thread, or a side that may use every core, that is at work for this share of the time is taken to be at its limit.
BOUND_SHARE = 0.85
# A broker that uses less of one core than this could do more, whatever its threads wait for.
SPARE_SHARE = 0.7
MACHINE_SHARE = 0.9
# What the kernel does for nobody in particular is less than this.
OTHERS_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Shares:
    """How busy each side was, in cores: 1.0 is one core all the time."""

    client: float
    client_busiest_thread: float
    broker: float
    broker_busiest_thread: float
    machine: float
    cores: int

    @property
    def others(self) -> float:
        """What neither of the two used."""
        return max(0.0, self.machine - self.client - self.broker)

    def __str__(self) -> str:
        used = f"client {self.client:.0%}, broker {self.broker:.0%}, others {self.others:.0%}"
        return f"in percent of one core: {used}"


def limited_by(shares: Shares) -> str:
    """`client`, `broker`, `cores` that both share, `others` that took them, or nothing if all had time to spare."""
    is_client_busy = shares.client_busiest_thread >= BOUND_SHARE or shares.client >= BOUND_SHARE * shares.cores
    if is_client_busy and shares.broker < SPARE_SHARE:
        return "client"
    if shares.machine >= MACHINE_SHARE * shares.cores:
        return "others" if shares.others >= OTHERS_SHARE * shares.cores else "cores"
    if shares.broker_busiest_thread >= BOUND_SHARE:
        return "broker"
    return "client" if is_client_busy else ""
