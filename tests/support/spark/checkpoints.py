"""Checkpoints of streaming queries, as Spark keeps them in files."""

from pathlib import Path


def replay_last_batch(checkpoint: Path) -> None:
    """As after a crash between the write of a batch and the note that it is done: Spark will do it again."""
    done = sorted((each for each in (checkpoint / "commits").iterdir() if each.name.isdecimal()), key=_number)
    assert done, "no batch was done"
    done[-1].unlink()
    done[-1].with_name(f".{done[-1].name}.crc").unlink()


def batches_done(checkpoint: Path) -> int:
    return sum(each.name.isdecimal() for each in (checkpoint / "commits").iterdir())


def _number(path: Path) -> int:
    return int(path.name)
