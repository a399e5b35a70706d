"""Names of cipher suites, as the IANA's registry has them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# What OpenSSL calls the cipher suites before TLS 1.3.
_CIPHER: Final = re.compile(
    r"(?:((?:ECDHE|DHE)-(?:RSA|ECDSA|DSS))-)?"
    r"(?:(AES|ARIA|CAMELLIA)(128|256)(?:-(GCM)|-(CCM)(8)?)?(?:-(SHA\d*))?|CHACHA20-POLY1305)"
)


@lru_cache(256)
def cipher_suite(name: str) -> str:
    """The IANA's name of the cipher suite that OpenSSL calls *name*; *name* for a rare one."""
    found = _CIPHER.fullmatch(name)
    if found is None:
        return name
    exchange, cipher, bits, gcm, ccm, tag, digest = found.groups()
    parts = ["TLS", (exchange or "RSA").replace("-", "_"), "WITH"]
    if cipher is None:
        parts.append("CHACHA20_POLY1305_SHA256")
    else:
        parts += [cipher, bits, gcm or ccm or "CBC", tag, digest]
    return "_".join(part for part in parts if part)
