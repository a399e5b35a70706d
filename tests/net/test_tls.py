"""The key exchange of TLS: what servers may choose, and what it costs."""

from __future__ import annotations

import base64
import random
import ssl
import time
from typing import TYPE_CHECKING

import pytest
import trustme
from fetching import OK, handler_with
from loopback import raw_server, untrusted
from scrapy import Request

from webcrawl import settings as project
from webcrawl.net.http.handler import offer_groups
from webcrawl.net.outcomes import outcome_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_key_exchange_in_a_finite_field_is_refused_at_no_cost(tmp_path, version):
    tls = untrusted("a.test", key_type=trustme.KeyType.RSA)
    tls.minimum_version = tls.maximum_version = version
    if version is ssl.TLSVersion.TLSv1_2:
        tls.set_ciphers("kDHE:@SECLEVEL=0")
        tls.load_dh_params(made_up_group(tmp_path, bits=8192))
    else:
        assert offer_groups(tls, "ffdhe8192")
    ciphers = {"DOWNLOADER_CLIENT_TLS_CIPHERS": project.DOWNLOADER_CLIENT_TLS_CIPHERS}
    async with raw_server(OK, tls=tls) as server, handler_with(**ciphers) as handler:
        began = time.process_time()
        with pytest.raises(Exception) as refused:  # noqa: PT011  any, for its outcome
            await handler.download_request(Request(f"https://127.0.0.1:{server.port}/"))
        # Most servers say why; this one hangs up.
        assert outcome_of(refused.value) in {"tls_failed", "connection_lost"}
        assert time.process_time() - began < 0.05


@pytest.mark.parametrize("curve", ["X25519", "P-256", "P-384", "P-521"])
async def test_every_curve_that_servers_insist_on_is_offered(curve):
    tls = untrusted("a.test")
    assert offer_groups(tls, curve)
    async with raw_server(OK, tls=tls) as server, handler_with() as handler:
        response = await handler.download_request(Request(f"https://127.0.0.1:{server.port}/"))
        assert response.body == b"hello"


def made_up_group(directory: Path, *, bits: int) -> Path:
    """A file of Diffie-Hellman parameters with an odd number for a prime."""

    def der(tag: int, content: bytes) -> bytes:
        return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content

    number = b"\0" + (random.Random(1).getrandbits(bits) | 1 | 1 << bits - 1).to_bytes(
        bits // 8, "big"
    )
    encoded = base64.encodebytes(der(0x30, der(2, number) + b"\2\1\2"))
    path = directory / "group.pem"
    path.write_bytes(b"-----BEGIN DH PARAMETERS-----\n%b-----END DH PARAMETERS-----\n" % encoded)
    return path
