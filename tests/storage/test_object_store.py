"""Object stores: what all of them promise, in a directory and in a bucket.

The bucket here is in memory, by the client of all buckets; crawls/test_hive_store.py has one of S3.
"""

import http.server
import json
from typing import ClassVar

import pytest
from http_site import serving
from published_shard import url_of
from text_tables import cases, each, words

from webcrawl.errors import ObjectStoreError
from webcrawl.storage.object_store import ObjectStore, moved_file_notices

MODIFIED = "Mon, 30 Nov 2026 00:00:00 GMT"


@pytest.fixture(params=["directory", "memory"])
def store(request, tmp_path, monkeypatch):
    return ObjectStore(url_of(request.param, tmp_path, monkeypatch))


@cases(
    "url options sentence",
    """
    sftp://me:secret@host/x | {} | X sftp://***@host/x must be a directory, or a URL of S3 (s3://)
    memory://x | {} | X memory://x must be a directory, or a URL of S3 (s3://), Google Cloud
    s3://b/x | {"key": "me", "secret": "s"} | X_OPTIONS: instead of key, use access_key_id
    s3://b/x | {"client_kwargs": {}} | X_OPTIONS: instead of client_kwargs, use endpoint and region
    az://b/x | {"connection_string": "s"} | instead of connection_string, use account_name and a
    gs://b/x | {"token": "file.json"} | X_OPTIONS: instead of token, use service_account_path
    s3://b/x | {"kee": "me"} | X s3://b/x cannot be used: Configuration key: 'kee' is not valid f
    """,
)
def test_stores_and_options_that_cannot_be_used_are_one_sentence(url, options, sentence):
    with pytest.raises(ObjectStoreError) as caught:
        ObjectStore(url, setting="X", options=options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_object_is_read_as_it_was_written_last(store):
    store.write("a/b/x", b"first")
    store.write("a/b/x", b"0123456789")
    assert store.read("a/b/x") == b"0123456789"
    assert store.read("a/b/x", 3, 4) == b"3456"
    assert store.read("a/b/x", 8, 40) == b"89"
    assert store.read("a/b/x", 10, 40) == store.read("a/b/x", 11, 40) == b""
    store.write("empty", b"")
    assert store.read("empty") == store.read("empty", 0, 4) == b""


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


def test_a_moved_file_is_in_the_store_and_a_note_where_it_was(store, tmp_path):
    file = tmp_path / "out" / "file"
    file.parent.mkdir()
    for data in (b"first", b"second, longer"):
        file.write_bytes(data)
        assert store.move(file, "warc/file") == len(data)
        assert store.read("warc/file") == data
    assert [path.name for path in file.parent.iterdir()] == ["MOVED"]
    (notice,) = moved_file_notices([file.parent, tmp_path])
    assert f"files of {file.parent} were moved to {store.name} (OUTPUT_STORE)" in notice
    with pytest.raises(FileNotFoundError):
        store.move(file, "warc/file")
    assert store.read("warc/file") == b"second, longer"


def test_a_file_is_not_moved_onto_itself(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"data")
    with pytest.raises(ObjectStoreError, match="cannot be moved to where it already is"):
        ObjectStore(str(tmp_path)).move(file, "file")
    assert file.read_bytes() == b"data"


def test_a_path_or_a_file_leads_to_a_directory(tmp_path):
    for url in (str(tmp_path), f"file://{tmp_path}", f"local://{tmp_path}"):
        ObjectStore(url).write("x", b"1")
        assert ObjectStore(url).name == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


class Service(http.server.BaseHTTPRequestHandler):
    """Takes every object, and notes the conditions of its request."""

    protocol_version = "HTTP/1.1"
    conditions: ClassVar = []

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        names = [name.lower() for name in self.headers if "match" in name.lower()]
        self.conditions.append({name: self.headers[name] for name in names})
        self.send_response(200)
        for name, value in (("ETag", '"1"'), ("Content-Length", "0"), ("Last-Modified", MODIFIED)):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@cases(
    "url options condition",
    """
    s3://b/x | {"access_key_id": "a", "secret_access_key": "b"} | {"if-none-match": "*"}
    az://c/x | {"account_name": "a", "account_key": "AAAA"}     | {"if-none-match": "*"}
    abfs://c@a.dfs.core.windows.net/x | {"account_key": "AAAA"} | {"if-none-match": "*"}
    gs://b/x | {}                                  | {"x-goog-if-generation-match": "0"}
    """,
)
def test_each_service_is_asked_to_create_an_object_only_once(tmp_path, url, options, condition):
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)) as server:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        if url.startswith("gs:"):
            login = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": ""}
            login |= {"private_key": "", "private_key_id": ""}
            (tmp_path / "login.json").write_text(json.dumps(login))
            options = {"service_account_path": str(tmp_path / "login.json")}
        else:
            options |= {"endpoint": endpoint}
        store = ObjectStore(url, options=options)
        store.write("a", b"1")
        store.create("a", b"2")
    assert Service.conditions[-2:] == [{}, condition]


ODD = ["", *words(". .. ../x a/../../x /etc/passwd a//b a/ .x"), "a\0b", "a\nb", "x" * 256]


@each("name", *ODD)
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
