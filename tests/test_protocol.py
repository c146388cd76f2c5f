"""Framed JSON: whatever arrives is a message or a ProtocolError."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.protocol import MAX_FRAME_BYTES, Decoder, ProtocolError, encode
from grader.reply import MalformedReplyError, parse_error, parse_reply

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
messages = st.dictionaries(st.text(max_size=10), json_values, max_size=6)


@given(st.lists(messages, max_size=4), st.integers(1, 50))
def test_messages_arrive_whole_however_they_are_cut(sent, chunk):
    stream = b"".join(encode(message) for message in sent)
    decoder, received = Decoder(), []
    for start in range(0, len(stream), chunk):
        decoder.feed(stream[start : start + chunk])
        while (message := decoder.next_message()) is not None:
            received.append(message)
    assert received == json.loads(json.dumps(sent))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data):
    decoder = Decoder()
    decoder.feed(data)
    try:
        while decoder.next_message() is not None:
            pass
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    "body",
    [b"[1]", b"3", b"nonsense", b"\xff\xff", b"[" * 200_000, b'{"a":' * 100_000, b"1" * 5000],
)
def test_bodies_that_are_no_object_are_refused(body):
    decoder = Decoder()
    decoder.feed(struct.pack(">I", len(body)) + body)
    with pytest.raises(ProtocolError):
        decoder.next_message()


def test_a_frame_that_announces_too_much_is_refused_before_it_comes():
    decoder = Decoder()
    decoder.feed(struct.pack(">I", MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match="announced"):
        decoder.next_message()


def test_a_message_too_large_is_not_sent():
    with pytest.raises(ProtocolError):
        encode({"text": "a" * MAX_FRAME_BYTES})


@given(messages)
def test_any_object_is_a_reply_or_malformed(message):
    for parse in (parse_reply, parse_error):
        with contextlib.suppress(MalformedReplyError):
            parse(message)
