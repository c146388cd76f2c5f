"""The line between judge and worker: framed JSON over one Unix socket. Both sides import this; it imports only the
standard library.

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any

MAX_FRAME_BYTES = 1 << 20
_LENGTH = struct.Struct(">I")

Message = dict[str, Any]


class ProtocolError(Exception):
    """The peer sent something that is not a frame of JSON."""


def encode(message: Message) -> bytes:
    """One frame. Raises ProtocolError where the message is larger than a frame may be."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(
            f"a message of {len(body)} bytes is longer than the {MAX_FRAME_BYTES} that a frame may have"
        )
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Takes bytes as they arrive and gives complete messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def next_message(self) -> Message | None:
        """The next complete message, or None. Raises ProtocolError where the bytes are no frame of a JSON object."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise ProtocolError(f"a frame of {length} bytes was announced; {MAX_FRAME_BYTES} are allowed")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a frame is not JSON: {error}") from None
        if not isinstance(message, dict):
            raise ProtocolError("a frame holds no JSON object")
        return message


def send(channel: socket.socket, message: Message, fds: tuple[int, ...] = ()) -> None:
    """Send one frame, with file descriptors attached to its first byte."""
    data = encode(message)
    if fds:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        sent = channel.sendmsg([data], rights)
        data = data[sent:]
    channel.sendall(data)


def receive(channel: socket.socket, decoder: Decoder, max_fds: int = 0, *,
            spin: bool = False) -> tuple[Message, list[int]] | None:  # fmt: skip
    """Block until one message has come, with the file descriptors that came along; None at the end of the stream.

    With `spin` the core is kept awake meanwhile: waking it up takes up to a tenth of a millisecond.
    """
    fds: list[int] = []
    flags = socket.MSG_DONTWAIT if spin else 0
    while (message := decoder.next_message()) is None:
        try:
            if max_fds:
                data, received, _, _ = socket.recv_fds(channel, 1 << 16, max_fds, flags)
                fds.extend(received)
            else:
                data = channel.recv(1 << 16, flags)
        except BlockingIOError:
            continue
        if not data:
            return None
        decoder.feed(data)
    return message, fds
