"""`python -m tests.faults.disk_trouble.troubled_broker NOTE serve …`: a broker whose disk fails as the note says."""

import errno
import os
import sys
from pathlib import Path

from headwater.cli.main import main
from tests.faults.disk_trouble.troubles import MET, Note
from tests.faults.kills.passages import Passage, watch_disk


def heed(note: Note) -> None:
    def watch(passage: Passage) -> None:
        for trouble in note.read():
            if trouble.is_at(passage):
                sys.stderr.write(f"{MET} {trouble.error} of {passage.path.parent.name}\n")
                sys.stderr.flush()
                number = getattr(errno, trouble.error)
                raise OSError(number, os.strerror(number))

    watch_disk(watch)


if __name__ == "__main__":
    _, path, *sys.argv[1:] = sys.argv
    heed(Note(Path(path)))
    main()
