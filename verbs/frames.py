"""The frames that a sender writes, as bytes: its hello and its one request (WIRE sections 1, 3, 4, 5)."""

import os

from verbs.fast_json import quote
from wire.account import os_user
from wire.limits import FRAME_VERSION, MAX_FRAME_BYTES, PROTOCOL_VERSION
from wire.version import VERSION

HELLO_ID = 1
REQUEST_ID = 2

HELLO = "hello"
COMM_FILE = "comm.file"
AGENT_SEND = "agent.send"


class UnsendableError(ValueError):
    """A request that no frame can hold; str() is the reason, and nothing was sent."""


def hello_frame(self_host: str, name: str) -> bytes:
    """Return this process's hello, with the members of `wire.admission.hello_payload` (WIRE section 3)."""
    return _frame(
        HELLO_ID,
        HELLO,
        f'{{"client_id":{_text(f"{name}-{os.getpid()}", "the sender")},"last_seen_revision":0,'
        f'"protocol":{PROTOCOL_VERSION},"app_version":{quote(VERSION)},'
        f'"host":{_text(self_host, "this box name")},"os_user":{quote(os_user())},"role":"cli",'
        f'"name":{_text(name, "the sender")},"instance":""}}',
    )


def comm_file_frame(sender: str, to: str, text: str, *, broadcast: bool = False) -> bytes:
    """Return the request to file one message (WIRE section 5)."""
    return _frame(
        REQUEST_ID,
        COMM_FILE,
        f'{{"from":{_text(sender, "the sender")},"to":{_text(to, "the recipient")},'
        f'"text":{_text(text, "the message")},"broadcast":{"true" if broadcast else "false"},'
        f'"forwarded":false}}',
    )


def agent_send_frame(sender: str, text: str) -> bytes:
    """Return the request to tell every connection something; that is a notice, not mail (WIRE section 4)."""
    return _frame(
        REQUEST_ID,
        AGENT_SEND,
        f'{{"from":{_text(sender, "the sender")},"to":"","text":{_text(text, "the message")}}}',
    )


def _frame(frame_id: int, op: str, payload: str) -> bytes:
    text = (
        f'{{"v":{FRAME_VERSION},"id":{frame_id},"kind":"req","op":{quote(op)},"payload":{payload}}}'.encode()
    )
    if len(text) > MAX_FRAME_BYTES:
        raise UnsendableError(too_large(f"makes a request of {len(text)} bytes"))
    return text


def too_large(size: str) -> str:
    """Return the reason why a message is not sent; `size` says how large it is."""
    return f"the message {size}, and {MAX_FRAME_BYTES} is the most; nothing was sent"


def _text(text: str, what: str) -> str:
    # Bytes of argv or the environment that are no UTF-8 arrive as lone surrogates.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnsendableError(f"{what} is not UTF-8 at character {error.start}; nothing was sent") from None
    return quote(text)
