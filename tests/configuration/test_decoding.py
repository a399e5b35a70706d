"""Bytes from outside end in a value or in one exception, whatever they are."""

from __future__ import annotations

import ast
import importlib
import json
import math
import random
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from msgspec.inspect import type_info
from test_imports import modules
from text_tables import each

from webcrawl.configuration.decoding import MOST, UndecodableError, converter
from webcrawl.crawl.job.control_journal import Journal, last_changes
from webcrawl.crawl.job.ports import ports_of
from webcrawl.crawl.seeds import BadLine
from webcrawl.errors import FatalError
from webcrawl.frontier.entry import Entry, decode, encode
from webcrawl.hive.bus import messages
from webcrawl.hive.bus.live_seeds import parse_item
from webcrawl.hive.bus.outbox import messages_of
from webcrawl.hive.launch.child_process import message_in
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.hive.membership.report import HiveState, decode_report, decode_state
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.hosts.records import host_record
from webcrawl.hosts.robots import robots_record
from webcrawl.jobs.audit.log_line import parse
from webcrawl.jobs.inspect.examination import doctor_lines
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.revisit.history import History, decode_history, encode_history
from webcrawl.seen.snapshots import DiskSnapshot, decode_snapshot, tag_of
from webcrawl.storage.manifest import ManifestStore
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FACTORIES = {"msgpack_decoder", "json_decoder", "json_lines_decoder"}
DEEP = 100_000


class Decoder(NamedTuple):
    factory: str
    decode: Callable[[bytes], Any]
    kind: Any

    @property
    def samples(self):
        return samples(type_info(self.kind))

    def encoded(self, value):
        if self.factory == "msgpack_decoder":
            return msgspec.msgpack.encode(value)
        return json.dumps(value, default=lambda data: b64encode(data).decode()).encode()


def decoders():
    """All decoders of modules: ``name = msgpack_decoder(Kind)``."""
    for found in modules():
        for node in found.tree.body if "_decoder(" in found.text else ():
            match node:
                case ast.Assign(
                    targets=[ast.Name(name)], value=ast.Call(ast.Name(factory), [kind])
                ) | ast.AnnAssign(ast.Name(name), value=ast.Call(ast.Name(factory), [kind])) if (
                    factory in FACTORIES
                ):
                    module = importlib.import_module(f"webcrawl.{found.name}")
                    given = eval(ast.unparse(kind), vars(module))
                    one = Decoder(factory, getattr(module, name), given)
                    yield pytest.param(one, id=f"{found.name}.{name}")


DECODERS = [*decoders()]


# A value of each type without parts; the first of a float is good, and others must not come.
LEAVES: dict[Any, list[Any]] = {
    msgspec.inspect.FloatType: [1.0, math.nan, math.inf, -math.inf, 1e300],
    msgspec.inspect.IntType: [1],
    msgspec.inspect.BoolType: [True],
    msgspec.inspect.StrType: [""],
    msgspec.inspect.BytesType: [b"\0"],
    msgspec.inspect.CustomType: ["a"],
    msgspec.inspect.AnyType: [1],
    msgspec.inspect.RawType: [1],
}


def samples(info):  # noqa: PLR0911  # one for each type
    """A value of the type *info* as msgpack and JSON have it, then others with one bad float."""
    inspect = msgspec.inspect
    match info:
        case inspect.StructType(fields=fields, tag=tag):
            rows = combined([samples(field.type) for field in fields])
            if info.array_like:
                return [[tag, *row] if tag is not None else row for row in rows]
            names = [field.encode_name for field in fields]
            return [dict(zip(names, row, strict=True)) for row in rows]
        case inspect.NamedTupleType(fields=fields):
            return combined([samples(field.type) for field in fields])
        case inspect.TupleType(item_types=types):
            return combined([*map(samples, types)])
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [[one] for one in samples(item)]
        case inspect.DictType(key_type=key, value_type=value):
            return [{samples(key)[0]: one} for one in samples(value)]
        case inspect.UnionType(types=types):
            several = [samples(one) for one in types if not isinstance(one, inspect.NoneType)]
            return [several[0][0], *(one for found in several for one in found[1:])]
        case inspect.LiteralType(values=values):
            return [values[0]]
        case inspect.EnumType(cls=cls):
            return [next(iter(cls)).value]
    return ["GET"] if getattr(info, "pattern", "") == "^[A-Za-z]+$" else LEAVES[type(info)]


def combined(parts):
    good = [one[0] for one in parts]
    return [good] + [
        [*good[:at], one, *good[at + 1 :]] for at, found in enumerate(parts) for one in found[1:]
    ]


def hostile(good=b""):
    """Bytes that hardly any decoder takes, of both forms."""
    chance = random.Random(58)
    yield from (b"", b"\xc1", b"null", b"\xc0", b"[]", b"{}", b"\x90", b"\x80", b"1" * 5000)
    yield from (b"[" * DEEP, b'{"a":' * DEEP, b"\x91" * DEEP, b"\x81\xa1a" * DEEP)
    yield from (b'["\xff"]', b'{"\xff":1}', b'{"at":"\xff"}', b"\x91\xa1\xff", b"\x81\xa1\xff\xc0")
    yield from (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff")
    yield from (b"1e999", b"[1e400]", b"\xcf" + b"\xff" * 8, b"\xcb\x7f\xf8" + bytes(6))
    yield from (b'{"a":' + b"9" * 4400 + b"}", b'"\\ud800"', b"\x00" * 100)
    yield from (chance.randbytes(chance.randrange(1, 60)) for _ in range(100))
    yield from (good[:size] for size in range(len(good)))
    for at in range(min(len(good), 200)):
        yield good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1 :]


def test_the_table_has_the_decoders_of_all_rooms():
    rooms = {str(one.id).partition(".")[0] for one in DECODERS}
    assert rooms >= {"frontier", "revisit", "hosts", "seen", "crawl", "hive", "jobs", "storage"}
    assert len(DECODERS) >= 40


@each("decoder", *DECODERS)
def test_any_bytes_give_a_value_or_one_exception(decoder):
    good = decoder.encoded(decoder.samples[0])
    assert decoder.decode(good) is not None
    said = []
    for data in hostile(good):
        try:
            decoder.decode(data)
        except UndecodableError as error:
            said.append(str(error))
    assert all(said)
    assert len(said) > len(good) / 2


@each("decoder", *[one for one in DECODERS if len(one.values[0].samples) > 1])
def test_no_float_is_infinite_or_not_a_number_or_too_large(decoder):
    for bad in decoder.samples[1:]:
        with pytest.raises(UndecodableError):
            decoder.decode(decoder.encoded(bad))


@each(
    "decode_one kind required",
    (decode, Entry, ["http://a.test/", "a.test"]),
    (decode_history, History, []),
)
def test_numbers_of_entries_and_histories_have_bounds(decode_one, kind, required):
    good = [*msgspec.to_builtins(kind(*required), builtin_types=(bytes,))]
    names = kind.__struct_fields__
    numbers = [name for at, name in enumerate(names) if type(good[at]) in {int, float}]
    assert len(numbers) >= 7
    fingerprints = {"content", "links", "text"}
    for name in numbers:
        at = names.index(name)
        over = [] if name in fingerprints else [MOST + 1, (1 << 64) - 1]
        for bad in [-2, -(1 << 63), *over]:
            with pytest.raises(UndecodableError):
                decode_one(msgspec.msgpack.encode([*good[:at], bad, *good[at + 1 :]]))


def test_the_largest_numbers_of_an_entry_are_read():
    entry = Entry("http://a.test/", "a.test", MOST, MOST, "", "a", MOST, 2.5e11, score=-1)
    assert decode(encode(entry)) == entry
    history = History(2.5e11, (1 << 64) - 1, links=(1 << 64) - 1, at=MOST, interval=MOST)
    assert decode_history(encode_history(history)) == history


@each("value", [], {"born_at": "nan"}, {"shards": "-1"}, {"round": "9" * 30})
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(UndecodableError):
        converter(HiveState, strict=False)(value)


def test_threads_that_are_the_first_to_convert_a_struct_crash_no_process():
    code = """
import sys, threading
from msgspec import defstruct
from webcrawl.configuration.decoding import Count, converter
sys.setswitchinterval(1e-9)
for _ in range(1000):
    names = [f"f{n}" for n in range(8)]
    convert = converter(defstruct("Some", [(name, Count) for name in names]))
    threads = [
        threading.Thread(target=convert, args=[dict.fromkeys(names, 1)]) for _ in range(4)
    ]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def _manifest(data, path):
    (path / "manifest-000001.json").write_bytes(data)
    (path / "CURRENT").write_text("manifest-000001.json")
    return ManifestStore(path=path).load()


def _written(name, read):
    def reader(data, path):
        file = path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data + b"\n")
        return read(path)

    return reader


Reader = tuple["Callable[[bytes, Path], object]", tuple[type[Exception], ...]]
CALLERS: dict[str, Reader] = {
    "manifest": (_manifest, (CorruptRecordError, NewerFormatError)),
    "host record": (lambda data, path: host_record.decode(data, "a", path), (CorruptRecordError,)),
    "robots record": (lambda data, _: robots_record.unpack(data), ()),
    "seen": (
        lambda data, path: decode_snapshot(data, DiskSnapshot, path=path),
        (CorruptRecordError, NewerFormatError),
    ),
    "tag": (lambda data, _: tag_of(data), ()),
    "message": (lambda data, _: messages.decode(data), (UndecodableError,)),
    "outbox": (lambda data, _: messages_of(data), (UndecodableError,)),
    "live seed": (lambda data, _: parse_item(data), (BadLine,)),
    "report": (lambda data, _: decode_report(data), ()),
    "state": (
        lambda data, _: decode_state({"born_at": data.decode("latin-1")}),
        (UndecodableError,),
    ),
    "published": (_written("published.json", LocalRecord.read), ()),
    "stats": (_written("stats.json", stats_of), ()),
    "ports": (_written("ports.json", ports_of), ()),
    "journal": (_written("logs/control.jsonl", lambda path: Journal(path).read()), (FatalError,)),
    "changes": (_written("logs/control.jsonl", lambda path: last_changes(path, 9)), ()),
    "outcomes": (_written("logs/info.jsonl", lambda path: [*outcome_lines(path)]), ()),
    "doctor": (_written("logs/stats.jsonl", lambda path: [*doctor_lines(path)]), ()),
    "audit": (lambda data, _: parse(data.decode("latin-1"), log="a", line=1), ()),
    "log": (lambda data, _: message_in('{"level": ' + data.decode("latin-1") + "}"), ()),
}


@each("name", *CALLERS)
def test_callers_keep_their_sentences(name, tmp_path):
    read, allowed = CALLERS[name]
    for data in hostile():
        with suppress(*allowed):
            read(data, tmp_path)
