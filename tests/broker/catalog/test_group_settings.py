"""Settings of groups in the catalog: they survive restarts, keep the broker's bounds, and never prevent a start."""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from headwater.broker.broker import Broker
from headwater.config.group import GroupConfig
from headwater.errors import ConfigError, ErrorCode, Refusal
from headwater.ids import GroupId, TopicId
from tests.support.broker.embedded_broker import crash, create, running, start

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ANN = GroupId("ann")


async def configure(broker: Broker, values: Mapping[str, str], *, validate_only: bool = False) -> None:
    await broker._effective.change_group(ANN, lambda _: values, validate_only=validate_only)


@pytest.mark.parametrize("cleanly", [True, False])
async def test_settings_of_a_group_without_members_survive_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path)
    await configure(broker, {SESSION: "50000"})
    await broker._effective.change_group(ANN, lambda before: {**before, HEARTBEAT: "6000"})
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path) as again:
        assert again._effective.of_group(ANN) == GroupConfig(
            consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=6000
        )
        assert again._effective.of_group(GroupId("bob")) == GroupConfig()
        await configure(again, {})
        assert again._effective.of_group(ANN) == GroupConfig()

    async with running(tmp_path) as again:
        assert again.metadata.state.group_overrides == {}


async def test_a_refused_or_validate_only_change_leaves_the_settings(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.groups.max": "1"}) as broker:
        await configure(broker, {SESSION: "50000"}, validate_only=True)
        with pytest.raises(ConfigError, match=r"group\.consumer\.max\.session\.timeout\.ms"):
            await configure(broker, {SESSION: "60001"})
        with pytest.raises(ConfigError, match="unknown group setting"):
            await configure(broker, {"retention.ms": "1"}, validate_only=True)
        assert broker.metadata.state.group_overrides == {}

        await configure(broker, {SESSION: "50000"})
        with pytest.raises(Refusal, match=r"headwater\.groups\.max") as refused:
            await broker._effective.change_group(GroupId("bob"), lambda _: {SESSION: "50000"})
        assert refused.value.code is ErrorCode.POLICY_VIOLATION


async def test_a_group_setting_outside_the_brokers_new_bounds_falls_back_to_the_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, {"group.consumer.max.session.timeout.ms": "90000"}) as broker:
        await configure(broker, {SESSION: "80000"})
    async with running(tmp_path, {"group.consumer.session.timeout.ms": "50000"}) as again:
        assert again._effective.of_group(ANN).consumer_session_timeout_ms == 50_000
        assert "settings of group 'ann'" in caplog.text
    async with running(tmp_path, {"group.consumer.max.session.timeout.ms": "90000"}) as again:
        assert again._effective.of_group(ANN).consumer_session_timeout_ms == 80_000


async def test_partitions_are_in_the_rack_of_their_broker(tmp_path: Path) -> None:
    async with running(tmp_path, {"broker.rack": "west"}) as broker:
        await create(broker, "t")
        topic_id = broker.topics.existing("t").id
        racks_of = broker.leadership.racks_of
        assert racks_of(topic_id, 0) == {"west"}
        assert racks_of(topic_id, 1) == racks_of(topic_id, -1) == frozenset()
        assert racks_of(TopicId(uuid4()), 0) == frozenset()
    async with running(tmp_path) as broker:
        assert broker.leadership.racks_of(topic_id, 0) == frozenset()
