"""What is written is whole and for its owner only; what an error leaves is removed."""

from text_tables import each

from webcrawl.storage.atomic import remove_new, restrict, write_atomic


@each("is_secret mode", (True, 0o600), (False, 0o644))
def test_a_secret_file_is_for_its_owner(tmp_path, is_secret, mode):
    path = tmp_path / "file"
    write_atomic(path, b"data", is_secret=is_secret)
    assert path.read_bytes() == b"data"
    assert path.stat().st_mode & 0o777 == mode


def test_a_file_that_others_may_read_is_restricted_once(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"data")
    path.chmod(0o644)
    assert restrict(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not restrict(path)


@each("before", None, frozenset(), frozenset({"file", "folder", "link"}), frozenset({"file"}))
def test_only_what_is_new_is_removed(tmp_path, before):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "inside").write_bytes(b"data")
    directory = tmp_path / "job"
    (directory / "folder").mkdir(parents=True)
    (directory / "folder" / "file").write_bytes(b"data")
    (directory / "file").write_bytes(b"data")
    (directory / "link").symlink_to(kept)
    remove_new(directory, before)
    assert directory.exists() == (before is not None)
    assert {path.name for path in directory.glob("*")} == (before or set())
    assert (kept / "inside").exists()
    remove_new(tmp_path / "gone", None)
