"""Pending entries against a plain model."""

from random import Random

import pytest

from headwater.coordination.schedule.entries import HELD, PendingEntries


@pytest.mark.parametrize("ids", [1, 5, 1_000_000])
def test_entries_are_found_by_the_hash_of_their_id_until_they_are_gone(ids: int) -> None:
    random = Random(ids)
    entries = PendingEntries(is_new=True)
    model: dict[int, int] = {}
    offset = 0
    for _ in range(4000):
        offset += random.randrange(1, 4)
        model[offset] = random.randrange(1, ids + 1)
        entries.add(offset, HELD, 10, model[offset])
        if random.random() < 0.7:
            gone = random.choice([*model]) if random.random() < 0.1 else next(iter(model))
            entries.remove(gone)
            id_hash = model.pop(gone)
            assert sorted(entries.with_hash(id_hash)) == [at for at, each in model.items() if each == id_hash]
    assert len(entries) == len(model)
    for id_hash in {*model.values()}:
        assert entries.with_hash(id_hash) == [at for at, each in model.items() if each == id_hash]
