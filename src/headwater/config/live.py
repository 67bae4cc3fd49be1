"""The broker's settings as they are now, and the one way in which running code follows a change.

Code that needs a value reads `current` at that moment. Code that keeps something derived from settings registers with
`follow`.
"""

from collections.abc import Callable

from headwater.config.broker import BrokerConfig


class LiveConfig:
    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        self._followers: list[Callable[[BrokerConfig], None]] = []

    def follow(self, use: Callable[[BrokerConfig], None]) -> None:
        """Call `use` with the settings now, and again after each change."""
        self._followers.append(use)
        use(self.current)

    def replace(self, config: BrokerConfig) -> None:
        self.current = config
        for use in self._followers:
            use(config)
