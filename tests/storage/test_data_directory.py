"""The data directory: which entries belong to the broker, and no state that a recreated topic inherits by its name."""

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest

from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.storage import names
from headwater.storage.data_directory import DataDirectory
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS, TOPIC_ID, QuickDisk, fill, flush, names_in, offsets, settings

NODE_ID = 1
ORDERS = TopicPartition(TopicName("orders"), 0)
BILLS = TopicPartition(TopicName("bills"), 0)
UNIQUE = "0123456789abcdef" * 2


class RefusingDisk(QuickDisk):
    """Fails every operation on paths with this name."""

    refused = ""

    def _check(self, path: Path) -> None:
        if path.name == self.refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make_directory(self, path: Path) -> None:
        self._check(path)
        super().make_directory(path)

    def remove_tree(self, path: Path) -> None:
        self._check(path)
        super().remove_tree(path)


@pytest.fixture
def disk() -> RefusingDisk:
    return RefusingDisk()


@pytest.fixture
def data(tmp_path: Path, disk: RefusingDisk) -> DataDirectory:
    return DataDirectory(tmp_path, NODE_ID, disk)


def make(data: DataDirectory, *identities: TopicPartition, topic_id: TopicId = TOPIC_ID) -> list[Log]:
    return data.create_partitions(identities, settings(), topic_id, NOW_MS)


def crashed(data: DataDirectory) -> DataDirectory:
    data.release()
    return DataDirectory(data.root, NODE_ID, QuickDisk())


def entries(data: DataDirectory) -> set[str]:
    return {path.name for path in data.root.iterdir() if not path.name.startswith(".")}


# -- checkpoints


def test_a_recreated_partition_has_no_checkpoints_of_its_namesake(data: DataDirectory) -> None:
    (old, other) = make(data, ORDERS, BILLS)
    fill(old, 40)
    fill(other, 5)
    data.write_recovery_points({ORDERS: 40, BILLS: 5})
    data.write_start_offsets({ORDERS: 30, BILLS: 2})
    old.delete().run()

    (new,) = make(data, ORDERS, topic_id=TopicId(UUID(int=43)))
    fill(new, 35)
    flush(new)
    again = crashed(data)

    assert offsets(again.open_partition(ORDERS, settings(), NOW_MS)) == list(range(35))
    assert offsets(again.open_partition(BILLS, settings(), NOW_MS)) == [2, 3, 4]
    assert (again.recovery_point(ORDERS), again.recovery_point(BILLS)) == (0, 5)


def test_a_restart_drops_checkpoints_of_deleted_partitions(data: DataDirectory) -> None:
    (old,) = make(data, ORDERS)
    data.write_start_offsets({ORDERS: 30})
    old.delete().run()

    (new,) = make(crashed(data), ORDERS)
    fill(new, 3)

    assert offsets(crashed(data).open_partition(ORDERS, settings(), NOW_MS)) == [0, 1, 2]


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_damaged_checkpoint_makes_every_log_recover(data: DataDirectory, name: str) -> None:
    (log,) = make(data, ORDERS)
    fill(log, 3)
    data.close({ORDERS: log})
    (data.root / name).write_bytes(b"0\n5\norders 0 3\n")
    again = DataDirectory(data.root, NODE_ID, QuickDisk())
    assert not again.is_clean
    assert again.open_partition(ORDERS, settings(), NOW_MS).is_recovered


# -- creation and deletion


def test_a_creation_that_fails_midway_leaves_no_directory(data: DataDirectory, disk: RefusingDisk) -> None:
    (data.root / "orders-1").mkdir()
    (data.root / "orders-1" / "precious").touch()
    identities = [TopicPartition(TopicName("orders"), index) for index in range(3)]
    disk.refused = "orders-2"
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            make(data, *identities)
    assert [name.partition(".")[0] for name in entries(data)] == ["orders-1"], "what was there is kept"

    disk.refused = ""
    make(data, *identities)
    assert set(data.partitions_found()) == set(identities)


def test_the_longest_name_can_be_deleted_and_set_aside(data: DataDirectory) -> None:
    longest = [TopicPartition(TopicName("x" * 249), index) for index in (0, 99999)]
    for identity in longest:
        (log,) = make(data, identity)
        garbage = log.delete()
        assert list(data.partitions_found()) == []
        garbage.run()
        assert entries(data) == set()
    make(data, *longest)
    for identity in longest:
        assert data.set_aside(identity).exists()
    assert list(data.partitions_found()) == []


def test_an_interrupted_deletion_is_completed_at_the_next_start(
    data: DataDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    (orders, bills) = make(data, ORDERS, BILLS)
    orders.delete()
    bills.delete()
    (unremovable,) = (name for name in entries(data) if name.startswith("bills"))
    data.release()

    stubborn = RefusingDisk()
    stubborn.refused = unremovable
    again = DataDirectory(data.root, NODE_ID, stubborn)

    assert entries(again) == {unremovable}
    assert "cannot be removed" in caplog.text


# -- foreign entries


@pytest.mark.parametrize(
    "name",
    ["note-delete", "my-precious-delete", "precious-missing", f"x.{UNIQUE}-delete.txt", f"x.{UNIQUE.upper()}-delete"],
)
@pytest.mark.parametrize("is_directory", [True, False])
def test_entries_with_names_like_deleted_partitions_are_left_alone(
    data: DataDirectory, name: str, is_directory: bool
) -> None:
    path = data.root / name
    path.mkdir() if is_directory else path.touch()
    (data.root / f"file.{UNIQUE}-delete").touch()
    (data.root / f"link.{UNIQUE}-delete").symlink_to(data.root)

    again = crashed(data)

    assert entries(again) == {name, f"file.{UNIQUE}-delete", f"link.{UNIQUE}-delete"}


@pytest.mark.parametrize("name", ["backup-01", "backup-\u0663", "backup-1 ", "-1", "bäckup-1", "backup-99999999999"])
def test_only_canonical_partition_names_are_partitions(data: DataDirectory, name: str) -> None:
    make(data, ORDERS)
    (data.root / name).mkdir()
    (data.root / name / names.PARTITION_METADATA).touch()
    (data.root / "link-0").symlink_to(data.root / "orders-0")
    (data.root / "empty-0").mkdir()
    (data.root / "file-0").touch()
    assert list(data.partitions_found()) == [ORDERS]


def damage_file(root: Path) -> None:
    (root / "orders-0").rename(root / "moved")
    (root / "orders-0").write_text("a file")


def damage_log(root: Path) -> None:
    segment = root / "orders-0" / names.file_name(0, names.LOG)
    segment.unlink()
    segment.mkdir()
    # A clean start would not open the segment.
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)


def damage_batch(root: Path) -> None:
    segment = root / "orders-0" / names.file_name(0, names.LOG)
    segment.write_bytes(bytes(segment.stat().st_size))
    (root / "orders-0" / names.file_name(7, names.SNAPSHOT)).unlink()


@pytest.mark.parametrize("damage", [damage_file, damage_log, damage_batch])
def test_only_the_partition_that_cannot_be_opened_is_offline(
    data: DataDirectory, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    logs = make(data, ORDERS, BILLS)
    for log in logs:
        fill(log, 7)
        log.advance_start(3)
    data.close(dict(zip((ORDERS, BILLS), logs, strict=True)))
    assert callable(damage)
    damage(data.root)

    again = DataDirectory(data.root, NODE_ID, QuickDisk())
    broken, sound = (again.open_partition(identity, settings(), NOW_MS) for identity in (ORDERS, BILLS))

    assert broken.failure is not None
    assert "cannot be opened" in broken.failure
    assert "orders-0 is offline, restore it" in caplog.text
    assert offsets(sound) == [3, 4, 5, 6]
    again.close({ORDERS: broken, BILLS: sound})
    assert crashed(again).recovery_point(ORDERS) == 7, "its recovery point is kept"


def test_deleting_a_partition_that_cannot_be_opened_removes_only_its_directory(data: DataDirectory) -> None:
    make(data, ORDERS, BILLS)
    damage_log(data.root)
    (data.root / "bills-0").rename(data.root / "moved")
    (data.root / "bills-0").write_text("a file")
    for identity in (ORDERS, BILLS, TopicPartition(TopicName("lost"), 0)):
        data.open_partition(identity, settings(), NOW_MS).delete().run()
    assert entries(data) == {"bills-0", "moved"}


# -- ownership


def test_a_directory_is_new_until_it_is_claimed_or_holds_a_partition(data: DataDirectory) -> None:
    assert data.is_new
    again = crashed(data)
    assert again.is_new, "a first start that was interrupted is a first start"
    make(again, ORDERS)
    third = crashed(again)
    assert not third.is_new
    third.claim()
    third.claim()
    assert crashed(third).cluster_id == third.cluster_id


def test_a_created_log_is_on_disk_with_its_epoch(data: DataDirectory) -> None:
    (log,) = make(data, ORDERS)
    assert names_in(log) == [names.file_name(0, names.LOG), names.LEADER_EPOCHS, names.PARTITION_METADATA]
    assert (log.directory / names.LEADER_EPOCHS).read_text() == "0\n1\n0 0\n"
