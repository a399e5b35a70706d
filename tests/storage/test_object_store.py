"""Object stores: what all of them promise, in a directory and by way of fsspec."""

from contextlib import suppress

import pytest
from published_shard import forget_memory
from text_tables import cases, words

from webcrawl.errors import ObjectStoreError
from webcrawl.storage.object_store import ObjectStore


@pytest.fixture(params=["directory", "memory", "fsspec with directories"])
def store(request, tmp_path):
    if request.param == "directory":
        yield ObjectStore(str(tmp_path / "store"))
    elif request.param == "memory":
        yield ObjectStore(f"memory://{tmp_path}")
        forget_memory(tmp_path)
    else:
        store = ObjectStore(f"{tmp_path}/store")
        store.directory = None
        yield store


@cases(
    "url is_named",
    """
    memory://x | True
    s3://bucket/x | False
    /tmp/x | False
    """,
)
def test_stores_that_go_with_the_next_version_are_named(caplog, url, is_named):
    with suppress(ObjectStoreError):  # s3fs is not installed
        ObjectStore(url)
    assert ("webcrawl 0.5 will only support" in caplog.text) == is_named


def test_an_object_is_read_as_it_was_written_last(store):
    store.write("a/b/x", b"first")
    store.write("a/b/x", b"0123456789")
    assert store.read("a/b/x") == b"0123456789"
    assert store.read("a/b/x", 3, 4) == b"3456"
    assert store.read("a/b/x", 8, 40) == b"89"
    store.write("empty", b"")
    assert store.read("empty") == b""


def test_what_is_not_there_is_told_apart_from_what_cannot_be_reached(store):
    store.write("x", b"")
    assert store.names("a") == set()
    for read in (store.read, lambda name: store.read(name, 1, 2)):
        with pytest.raises(FileNotFoundError):
            read("a/x")
    with pytest.raises(FileNotFoundError):
        store.copy({"a/x": "a/y"})
    store.delete(["a/x", "x", "x"])
    with pytest.raises(FileNotFoundError):
        store.read("x")


def test_names_are_those_of_one_folder_as_they_are_now(store):
    for name in ("a/x", "a/y", "b/z"):
        store.write(name, name.encode())
        assert name[2:] in store.names(name[:1])
    assert store.names("a") == {"x", "y"}
    store.delete(["a/x"])
    assert store.names("a") == {"y"}
    store.copy({"a/y": "a/v", "b/z": "a/w"})
    store.sync_folder("a")
    assert {name: store.read(f"a/{name}") for name in store.names("a")} == {
        "y": b"a/y",
        "v": b"a/y",
        "w": b"b/z",
    }


def test_the_first_to_create_an_object_wins(store):
    for data in (b"first", b"second"):
        store.create("a/x", data)
    assert store.read("a/x") == b"first"
    assert store.names("a") == {"x"}


def test_files_become_links_only_in_adirectory(store, tmp_path):
    file, out = tmp_path / "file", tmp_path / "out"
    file.write_bytes(b"data")
    inode = store.link_in(file, "a/x")
    assert inode in (0, file.stat().st_ino)
    assert bool(inode) == (store.directory is not None)
    if inode:
        assert store.link_out("a/x", out)
        assert out.samefile(file)
        with pytest.raises(FileNotFoundError):
            store.link_out("a/y", tmp_path / "other")
        with pytest.raises(FileNotFoundError):
            store.link_in(tmp_path / "gone", "a/y")
    else:
        store.write("a/x", b"data")
        assert not store.link_out("a/x", out)


def test_a_url_leads_to_fsspec_and_a_path_or_a_file_to_adirectory(tmp_path):
    for url in (str(tmp_path), f"file://{tmp_path}", f"local://{tmp_path}"):
        ObjectStore(url).write("x", b"1")
        assert ObjectStore(url).name == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    ObjectStore("memory://x").write("z/y", b"1")
    assert ObjectStore("memory://x").names("z") >= {"y"}
    assert not (tmp_path / "y").exists()


def test_an_error_of_a_client_library_is_one_sentence_without_credentials(monkeypatch):
    url = "memory://me:secret@host/x"
    store = ObjectStore(url)

    def fail(*_, **__):
        raise RuntimeError(f"Could not connect to {url}\nbecause of\nthis")

    monkeypatch.setattr(type(store._fs), "cat_file", fail)
    with pytest.raises(ObjectStoreError) as caught:
        store.read("x")
    assert str(caught.value) == (
        "HIVE_STORE memory://***@host/x cannot be used: Could not connect to memory://***@host/x"
    )


ODD = ["", *words(". .. ../x a/../../x /etc/passwd a//b a/ .x"), "a\0b", "a\nb", "x" * 256]


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_may_lead_elsewhere_is_refused_by_each_call(store, tmp_path, name):
    store.write("a/x", b"1")
    file = tmp_path / "file"
    file.write_bytes(b"data")
    for call in (
        lambda: store.write(name, b"2"),
        lambda: store.create(name, b"2"),
        lambda: store.read(name),
        lambda: store.names(name),
        lambda: store.delete([name]),
        lambda: store.copy({"a/x": name}),
        lambda: store.copy({name: "a/y"}),
        *([lambda: store.sync_folder(name)] if store.directory else []),
        *([lambda: store.link_in(file, name)] if store.directory else []),
        *([lambda: store.link_out(name, tmp_path / "out")] if store.directory else []),
    ):
        with pytest.raises(ObjectStoreError, match="is not a valid object name"):
            call()
    assert store.names("a") == {"x"}
