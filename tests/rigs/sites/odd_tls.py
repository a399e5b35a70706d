"""A small TLS 1.2 server that leaves out, adds or misplaces what a library would not.

It knows one cipher suite, ECDHE with X25519 and an RSA certificate (RFC 5246, RFC 5288, RFC 8422).
"""

import hashlib
import hmac
import os
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHANGE_CIPHER, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
HELLO_REQUEST, CLIENT_HELLO, SERVER_HELLO, CERTIFICATE, SERVER_KEY = 0, 1, 2, 11, 12
CERTIFICATE_REQUEST, DONE, CLIENT_KEY, FINISHED = 13, 14, 16, 20
#: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
SUITE = 0xC02F
#: Extensions of a ServerHello.
RENEGOTIATION_INFO = b"\xff\x01\0\1\0"
#: Signature schemes by their code.
SCHEMES = {0x0101: hashes.MD5(), 0x0201: hashes.SHA1(), 0x0401: hashes.SHA256()}
#: A CertificateRequest for one with an RSA key, of any authority.
ANY_CLIENT_CERTIFICATE = b"\1\1\0\2\4\1\0\0"


def prf(secret, label, seed, size):
    """The pseudorandom function of TLS 1.2 (RFC 5246, section 5)."""
    made, block = b"", label + seed
    while len(made) < size:
        block = hmac.digest(secret, block, "sha256")
        made += hmac.digest(secret, block + label + seed, "sha256")
    return made[:size]


def message(kind, content=b""):
    """A handshake message."""
    return bytes([kind]) + len(content).to_bytes(3, "big") + content


@dataclass(kw_only=True)
class OddServer:
    """The server's side of one connection; the fields say what is odd about it.

    certificates are DER, the server's first; extensions are those of the ServerHello; early is
    sent before it, as plain records; scheme signs the key exchange; record_size is the most bytes
    of a handshake record; client_request is the content of a CertificateRequest, if any.
    """

    key: object
    certificates: list
    extensions: bytes = RENEGOTIATION_INFO
    early: bytes = b""
    scheme: int = 0x0401
    record_size: int = 16_384
    client_request: bytes = b""
    _reader: object = field(init=False)
    _writer: object = field(init=False)
    _keys: object = None  # of both sides, and their salts
    _read_keys: object = None
    _pending: object = None
    _verify_data: bytes = b""  # of the last handshake
    _sent: int = 0
    _received: int = 0
    _encrypts: bool = False
    _decrypts: bool = False
    _unsent: bytes = b""
    _messages: bytes = b""  # received, and not whole or not used yet
    _transcript: bytes = b""

    async def serve(
        self,
        reader,
        writer,
        talk,
    ):
        """Shake hands, then *talk*. What is sent goes out before the next read, in one piece."""
        self._reader, self._writer = reader, writer
        await self._shake()
        await talk(self)
        writer.write(self._unsent)

    async def renegotiate(self):
        """Ask for another handshake, and do it (RFC 5246, section 7.4.1.1, and RFC 5746)."""
        self.say(HELLO_REQUEST)
        info = bytes([len(self._verify_data)]) + self._verify_data
        self.extensions = b"\xff\x01" + struct.pack(">H", len(info)) + info
        await self._shake()

    async def _shake(self):
        self._transcript = b""
        hello = await self._handshake(CLIENT_HELLO)
        server_random = os.urandom(32)
        extensions = self.extensions and struct.pack(">H", len(self.extensions)) + self.extensions
        self._unsent += self.early
        chosen = b"\3\3" + server_random + b"\0" + struct.pack(">HB", SUITE, 0) + extensions
        self.say(SERVER_HELLO, chosen)
        chain = b"".join(len(one).to_bytes(3, "big") + one for one in self.certificates)
        self.say(CERTIFICATE, len(chain).to_bytes(3, "big") + chain)
        private = x25519.X25519PrivateKey.generate()
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        params = b"\3\0\x1d\x20" + private.public_key().public_bytes(*raw)
        randoms = hello[2:34] + server_random
        signature = self.key.sign(randoms + params, padding.PKCS1v15(), SCHEMES[self.scheme])
        self.say(SERVER_KEY, params + struct.pack(">HH", self.scheme, len(signature)) + signature)
        if self.client_request:
            self.say(CERTIFICATE_REQUEST, self.client_request)
        self.say(DONE)
        if self.client_request:
            await self._handshake(CERTIFICATE)
        theirs = (await self._handshake(CLIENT_KEY))[1:]
        shared = private.exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
        secret = prf(shared, b"master secret", randoms, 48)
        block = prf(secret, b"key expansion", server_random + hello[2:34], 40)
        self._pending = block[:16], block[16:32], block[32:36], block[36:40]
        client = prf(secret, b"client finished", hashlib.sha256(self._transcript).digest(), 12)
        assert await self._handshake(FINISHED) == client
        server = prf(secret, b"server finished", hashlib.sha256(self._transcript).digest(), 12)
        self.send(CHANGE_CIPHER, b"\1")
        self._keys, self._encrypts, self._sent = self._pending, True, 0
        self.say(FINISHED, server)
        self._verify_data = client + server

    async def request(self):
        """Wait for a record of data: a request, as this crawler sends it."""
        while (await self._record())[0] != DATA:
            pass

    def say(self, kind, content=b""):
        """Send a handshake message."""
        data = message(kind, content)
        if kind != HELLO_REQUEST:
            self._transcript += data
        for start in range(0, len(data), self.record_size):
            self.send(HANDSHAKE, data[start : start + self.record_size])

    def send(self, kind, data):
        """Send a record."""
        if self._encrypts:
            _, key, _, salt = self._keys
            number = struct.pack(">Q", self._sent)
            known = number + struct.pack(">BHH", kind, 0x0303, len(data))
            data = number + AESGCM(key).encrypt(salt + number, data, known)
            self._sent += 1
        self._unsent += struct.pack(">BHH", kind, 0x0303, len(data)) + data

    async def _record(self):
        """Kind and content of the next record."""
        self._writer.write(self._unsent)
        self._unsent = b""
        kind, _, size = struct.unpack(">BHH", await self._reader.readexactly(5))
        data = await self._reader.readexactly(size)
        if self._decrypts:
            key, _, salt, _ = self._read_keys
            number = struct.pack(">Q", self._received)
            known = number + struct.pack(">BHH", kind, 0x0303, size - 24)
            data = AESGCM(key).decrypt(salt + data[:8], data[8:], known)
            self._received += 1
        if kind == CHANGE_CIPHER:
            self._read_keys, self._decrypts, self._received = self._pending, True, 0
        return kind, data

    async def _handshake(self, wanted):
        """The content of the next handshake message, which is *wanted*; ConnectionError for an
        alert."""
        while len(self._messages) < 4 or len(self._messages) < self._size():
            kind, data = await self._record()
            if kind == ALERT:
                raise ConnectionResetError(f"alert {data.hex()}")
            if kind == HANDSHAKE:
                self._messages += data
        size = self._size()
        whole, self._messages = self._messages[:size], self._messages[size:]
        assert whole[0] == wanted
        self._transcript += whole
        return whole[4:]

    def _size(self):
        return 4 + int.from_bytes(self._messages[1:4], "big")
