"""The limit of a figure: the client, the broker, the cores that they share, or other processes.

A figure that the client limits says what the client can do, not what the broker can.
"""

from dataclasses import dataclass

# A thread, or a side that may use every core, is taken to be at its limit if it is busy for this share of the time.
BOUND_SHARE = 0.85
# A broker that uses less of one core than this could do more, no matter what its threads wait for.
SPARE_SHARE = 0.7
MACHINE_SHARE = 0.9
# Kernel work that belongs to no process stays below this.
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
        """Cores used by neither side."""
        return max(0.0, self.machine - self.client - self.broker)

    def __str__(self) -> str:
        used = f"client {self.client:.0%}, broker {self.broker:.0%}, others {self.others:.0%}"
        return f"in percent of one core: {used}"


def limited_by(shares: Shares) -> str:
    """`client`, `broker`, the shared `cores`, `others` that took them, or empty if all had time to spare."""
    is_client_busy = shares.client_busiest_thread >= BOUND_SHARE or shares.client >= BOUND_SHARE * shares.cores
    if is_client_busy and shares.broker < SPARE_SHARE:
        return "client"
    if shares.machine >= MACHINE_SHARE * shares.cores:
        return "others" if shares.others >= OTHERS_SHARE * shares.cores else "cores"
    if shares.broker_busiest_thread >= BOUND_SHARE:
        return "broker"
    return "client" if is_client_busy else ""
