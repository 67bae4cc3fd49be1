"""The settings in effect: the broker's, with changes made through the protocol over those of files and environment, and
what topics and groups set themselves over those.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.ports.metadata import Metadata
from headwater.config.broker import BrokerConfig
from headwater.config.declaration import ConfigSource
from headwater.config.group import GroupConfig
from headwater.config.live import LiveConfig
from headwater.config.topic import TopicConfig
from headwater.coordination.access.machine import AccessLimits
from headwater.coordination.catalog.events import Event, Topic
from headwater.errors import ConfigError
from headwater.ids import GroupId

logger = logging.getLogger(__name__)

# Maps the settings that a resource has of its own to those it shall have. Called under the change lock, so that each
# change starts from the outcome of the one before it.
Change: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]


def access_limits(config: BrokerConfig) -> AccessLimits:
    return AccessLimits(config.headwater_acls_max, config.headwater_roles_max, config.headwater_role_grants_max)


class EffectiveConfig:
    def __init__(self, static: BrokerConfig, metadata: Metadata, partitions: HostedPartitions) -> None:
        self._metadata = metadata
        self._partitions = partitions
        # The settings of files, environment and command line.
        self._static = static
        state = metadata.state
        self.live = LiveConfig(self._over_static(state.broker_defaults, state.broker_overrides))
        self.check(self.live.current)
        # Every heartbeat asks for the settings of its group. Most groups set nothing themselves and share one object.
        self._common_group_config = GroupConfig.from_overrides({}, self.live.current)
        self._group_configs: dict[GroupId, GroupConfig] = {}
        self._read_group_configs()
        self.live.follow(self._use)

    def _over_static(self, defaults: Mapping[str, str], overrides: Mapping[str, str]) -> BrokerConfig:
        """The static settings under the defaults of all brokers, under those of this broker."""
        return self._static.changed(defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER).changed(overrides)

    def of_topic(self, topic: Topic) -> TopicConfig:
        return TopicConfig.from_overrides(topic.overrides, self.live.current)

    def of_group(self, group_id: GroupId) -> GroupConfig:
        """The settings of a group, whether there is such a group or not."""
        return self._group_configs.get(group_id, self._common_group_config)

    def _read_group_configs(self) -> None:
        for group_id, overrides in self._metadata.state.group_overrides.items():
            try:
                self._group_configs[group_id] = GroupConfig.from_overrides(overrides, self.live.current)
            except ConfigError as error:
                # The broker was started with other bounds, which win over what was set under the old ones.
                logger.warning(
                    "the settings of group %r do not suit the broker's and are not used: %s", group_id, error
                )

    def check(self, config: BrokerConfig) -> None:
        """Refuse settings of the broker that, as defaults, would contradict what a topic sets itself."""
        for topic in self._metadata.state.by_name.values():
            try:
                TopicConfig.from_overrides(topic.overrides, config)
            except ConfigError as error:
                raise ConfigError(f"topic '{topic.name}' would have settings that contradict: {error}") from error

    def _use(self, config: BrokerConfig) -> None:
        """The broker's settings are the defaults of every topic."""
        state = self._metadata.state
        state.topics_max = config.headwater_topics_max
        state.partitions_max = config.headwater_partitions_max
        state.access.limits = access_limits(config)
        state.identities.users_max = config.headwater_users_max
        state.identities.tokens_max = config.headwater_delegation_tokens_max
        for topic in state.by_name.values():
            self._partitions.use_config(topic.name, self.of_topic(topic))

    # -- changes

    def reload(self, config: BrokerConfig) -> None:
        """Take over the static settings that may change while the broker runs; log those that need a restart."""
        before, state = self._static, self._metadata.state
        self._static, waiting = before.reloaded(config)
        try:
            effective = self._over_static(state.broker_defaults, state.broker_overrides)
            self.check(effective)
        except ConfigError:
            self._static = before
            raise
        for name in waiting:
            logger.warning("%s changed, which takes effect only after a restart", name)
        self.live.replace(effective)

    async def change_broker(self, change: Change, *, validate_only: bool = False) -> None:
        metadata, state = self._metadata, self._metadata.state
        async with metadata.change_lock:
            overrides = change(state.broker_overrides)
            self.check(self._over_static(state.broker_defaults, overrides))
            await self._commit(state.decide_configure_broker(overrides), validate_only=validate_only)

    async def change_brokers(self, change: Change, *, validate_only: bool = False) -> None:
        """Change the defaults of all brokers."""
        metadata, state = self._metadata, self._metadata.state
        async with metadata.change_lock:
            defaults = change(state.broker_defaults)
            self.check(self._over_static(defaults, state.broker_overrides))
            await self._commit(state.decide_configure_brokers(defaults), validate_only=validate_only)

    async def _commit(self, events: Sequence[Event], *, validate_only: bool) -> None:
        """Commit a change of the broker's settings, and use them."""
        if validate_only or not events:
            return
        await self._metadata.commit(events)
        state = self._metadata.state
        self.live.replace(self._over_static(state.broker_defaults, state.broker_overrides))

    async def change_topic(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        metadata = self._metadata
        async with metadata.change_lock:
            topic = metadata.state.existing(name)
            overrides = change(topic.overrides)
            events = metadata.state.decide_configure(name, overrides)
            config = TopicConfig.from_overrides(overrides, self.live.current)
            if validate_only or not events:
                return
            await metadata.commit(events)
            self._partitions.use_config(topic.name, config)
            logger.info("changed settings of topic %s", name)

    async def change_group(self, group_id: GroupId, change: Change, *, validate_only: bool = False) -> None:
        metadata = self._metadata
        async with metadata.change_lock:
            overrides = change(metadata.state.group_overrides.get(group_id, {}))
            events = metadata.state.decide_configure_group(group_id, overrides)
            config = GroupConfig.from_overrides(overrides, self.live.current)
            if validate_only or not events:
                return
            await metadata.commit(events)
            if overrides:
                self._group_configs[group_id] = config
            else:
                self._group_configs.pop(group_id, None)
            logger.info("changed settings of group %r", group_id)
