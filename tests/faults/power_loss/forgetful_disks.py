"""Disks that lose what was synced, to prove that the checks after a power failure can fail."""

from pathlib import Path

from tests.faults.power_loss.recording import RecordingDisk, RecordingFile


class UnsyncedFile(RecordingFile):
    __slots__ = ()

    def sync_data(self) -> None:
        pass


class DiskThatSyncsNoFiles(RecordingDisk):
    """Like a drive that ignores cache flushes, or a broker that forgot to sync."""

    file_type = UnsyncedFile


class DiskThatSyncsNoNames(RecordingDisk):
    def sync_directory(self, path: Path) -> None:
        pass
