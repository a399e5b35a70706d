"""The TLS groups that the crawler offers: elliptic curves only.

A server chooses the group of the key exchange among those that the client offers. Finite fields
cost the client up to 0.13 s of CPU a handshake (ffdhe8192), curves up to 4 ms. TLS 1.2's are
switched off by the cipher list (DOWNLOADER_CLIENT_TLS_CIPHERS), TLS 1.3's here.
"""

from __future__ import annotations

import _ssl
import ctypes
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

#: OpenSSL 3.0's default list less ffdhe2048 to ffdhe8192.
CURVES: Final = "X25519:P-256:X448:P-521:P-384"
_SET_GROUPS_LIST: Final = 92  # SSL_CTRL_SET_GROUPS_LIST of openssl/ssl.h


def offer_groups(context: ssl.SSLContext, groups: str) -> bool:
    """Let *context* offer and accept *groups*, in OpenSSL's notation. Returns False where that
    cannot be: another Python than CPython, or one whose OpenSSL is built in or lacks one of them.

    Python's ssl has a method for one curve, and for a list from 3.15 on. Until then OpenSSL is
    called itself; its context is the first field of CPython's (Modules/_ssl.c).
    """
    if sys.implementation.name != "cpython":
        return False
    try:
        call = ctypes.CDLL(_ssl.__file__).SSL_CTX_ctrl
    except (AttributeError, OSError):
        return False
    call.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p)
    call.restype = ctypes.c_long
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    return bool(call(pointer, _SET_GROUPS_LIST, 0, groups.encode()))
