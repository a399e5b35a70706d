"""Manifests: numbered descriptions of saved states, and ``CURRENT``, the name of the live one.

    CURRENT                  the name of the live manifest and a newline
    manifest-NNNNNN.json     {"format": 2, "sequence": NNNNNN, ...the content,
                              "crc32": checksum}

*checksum* is the CRC-32 (zlib) of the other members as compact JSON. Remove it if you edit a
manifest by hand. Only the owner of a manifest can read it, because it contains the seed of the
job's fingerprints.

As in LevelDB's ``SetCurrentFile``, a manifest is written and fsynced under a new name, then CURRENT
is replaced by a rename. After a crash at any point, either the old state or the new one is live.
Files that the live manifest does not name are disposable.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

# Format 1 was used before the first release, when a job and its shard shared one manifest.
FORMAT = 2
_NAME = re.compile(r"manifest-(\d{6,})\.json")
_decode = json_decoder(dict[str, Any])


class ManifestStore:
    """The manifests of one directory. ``load`` and ``publish`` block on the disk."""

    def __init__(self, *, path: Path) -> None:
        self._path = path
        # The number of the last manifest that was loaded, or that may have been published.
        self._sequence = 0

    def load(self) -> dict[str, Any] | None:
        """Return the live manifest, or None if no manifest was ever published here.

        Changes nothing on disk. Raises CorruptRecordError if the manifest that CURRENT names cannot
        be read, and NewerFormatError if a later webcrawl wrote it.
        """
        current = self._path / "CURRENT"
        try:
            name = current.read_text("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        match = _NAME.fullmatch(name)
        if match is None:
            raise CorruptRecordError(current, 0, "does not name a manifest")

        path = self._path / name
        try:
            manifest = _decode(path.read_bytes())
        except (OSError, UndecodableError) as error:
            raise CorruptRecordError(path, 0, f"not a readable manifest ({error})") from error

        checksum = manifest.pop("crc32", None)
        if not isinstance(manifest.get("format"), int):
            raise CorruptRecordError(path, 0, "the manifest has no format number")
        # With a right checksum for FORMAT, only the format number is damaged.
        if manifest["format"] > FORMAT and checksum != _checksum({**manifest, "format": FORMAT}):
            raise NewerFormatError(path, manifest["format"], FORMAT)
        # A manifest that was edited by hand has none.
        if checksum is not None and checksum != _checksum(manifest):
            raise CorruptRecordError(path, 0, "checksum mismatch")
        if manifest["format"] < FORMAT:
            raise CorruptRecordError(path, 0, "it is from before webcrawl 0.1 and not supported")
        self._sequence = int(match[1])
        return manifest

    def continue_after(self, sequence: int) -> None:
        """Number the next manifest *sequence* + 1, because *sequence* may have been used."""
        self._sequence = sequence

    def next_sequence(self) -> int:
        """Return the number of the next manifest, which may be part of the names of its files."""
        return self._sequence + 1

    def publish(self, content: dict[str, Any]) -> None:
        """Make *content* the live manifest, then delete older ones.

        All files that *content* names must have been fsynced before. On an OSError the old manifest
        stays live, unless only the last fsync of the directory failed: then the new one may be
        live. Each attempt therefore uses a new number, so that a second attempt cannot overwrite
        files of the first.
        """
        sequence = self._sequence + 1
        self._sequence = sequence
        name = f"manifest-{sequence:06d}.json"
        manifest = {"format": FORMAT, "sequence": sequence, **content}
        manifest["crc32"] = _checksum(manifest)
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        write_atomic(self._path / name, data + b"\n", is_secret=True)
        write_atomic(self._path / "CURRENT", f"{name}\n".encode("ascii"))
        for path in self._path.glob("manifest-*.json"):
            if path.name != name:
                path.unlink()


def _checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(msgspec.json.encode(manifest))
