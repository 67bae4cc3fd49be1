"""The one way in which running code follows a change of settings."""

from headwater.config.broker import BrokerConfig
from headwater.config.live import LiveConfig


def test_a_follower_hears_of_the_settings_at_once_and_of_each_change() -> None:
    live = LiveConfig(BrokerConfig(num_partitions=1))
    heard: list[int] = []
    live.follow(lambda config: heard.append(config.num_partitions))
    assert heard == [1]
    live.replace(BrokerConfig(num_partitions=2))
    assert heard == [1, 2]
    assert live.current.num_partitions == 2
