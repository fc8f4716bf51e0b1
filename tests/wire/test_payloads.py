"""The payloads of the ops, checked at the door: WIRE sections 3 to 5."""

from typing import Any

import pytest

from wire.payloads import AgentSend, BadPayloadError, CommFile, Hello, fit, offer_payload

MAIL: dict[str, Any] = {"from": "me", "to": "h", "text": "hi"}
HELLO: dict[str, Any] = {
    "client_id": "c",
    "protocol": 3,
    "app_version": "x",
    "host": "boxa",
    "os_user": "uid:1",
    "role": "cli",
    "name": "me",
    "instance": "i",
    "session_id": "s",
    "last_seen_revision": 0,
}
NO_STRINGS: list[Any] = [1, 1.5, True, None, [], {}, ["x"]]
NO_BOOLEANS: list[Any] = [0, 1, "true", "", None, [], {}]
NO_INTEGERS: list[Any] = [1.0, 0.5, True, False, "3", None, [], {}]


def _refusal(model: Any, payload: dict[str, Any]) -> str:
    with pytest.raises(BadPayloadError) as caught:
        fit(model, payload)
    return str(caught.value)


@pytest.mark.parametrize("value", NO_STRINGS)
@pytest.mark.parametrize("member", ["from", "to", "text"])
def test_comm_file_names_the_member_that_is_no_string(member: str, value: Any) -> None:
    assert _refusal(CommFile, {**MAIL, member: value}) == f"'{member}' must be a string"


@pytest.mark.parametrize("value", NO_BOOLEANS)
@pytest.mark.parametrize("member", ["broadcast", "forwarded"])
def test_comm_file_names_the_member_that_is_no_boolean(member: str, value: Any) -> None:
    assert _refusal(CommFile, {**MAIL, member: value}) == f"'{member}' must be true or false"


@pytest.mark.parametrize("member", ["from", "to", "text"])
def test_comm_file_names_the_member_that_is_missing(member: str) -> None:
    payload = {name: value for name, value in MAIL.items() if name != member}
    assert _refusal(CommFile, payload) == f"'{member}' is missing"


def test_broadcast_and_forwarded_are_false_where_they_are_absent() -> None:
    request = fit(CommFile, MAIL)
    assert (request.sender, request.to, request.text) == ("me", "h", "hi")
    assert (request.broadcast, request.forwarded) == (False, False)


def test_unknown_members_are_ignored_and_our_own_attribute_names_are_unknown() -> None:
    assert fit(CommFile, {**MAIL, "later": [1], "sender": 5}) == fit(CommFile, MAIL)
    assert _refusal(CommFile, {"sender": "me", "to": "h", "text": "hi"}) == "'from' is missing"


@pytest.mark.parametrize(
    "sender", ["", "x" * 256, "é" * 256, "😀" * 256, "a b", "\u2028", "\u202e", "\u00a0"]
)
def test_from_is_any_text_of_at_most_256_characters_without_a_control_character(sender: str) -> None:
    assert fit(CommFile, {**MAIL, "from": sender}).sender == sender


@pytest.mark.parametrize("sender", ["x" * 257, "é" * 257, "😀" * 257])
def test_from_of_257_characters_is_refused(sender: str) -> None:
    assert _refusal(CommFile, {**MAIL, "from": sender}) == "'from' must be at most 256 characters"


@pytest.mark.parametrize("char", [*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0))], ids=ascii)
def test_from_with_a_control_character_is_refused(char: str) -> None:
    assert _refusal(CommFile, {**MAIL, "from": f"a{char}b"}) == "'from' must hold no control character"


def test_to_and_text_are_any_strings() -> None:
    request = fit(CommFile, {**MAIL, "to": "", "text": "\x00\n" * 1000})
    assert request.to == ""
    assert request.text == "\x00\n" * 1000


def test_an_offer_holds_exactly_its_five_members_and_says_forwarded() -> None:
    request = fit(CommFile, {**MAIL, "broadcast": True, "id": 5, "rev": 1})
    assert list(offer_payload(request).items()) == [
        ("from", "me"),
        ("to", "h"),
        ("text", "hi"),
        ("broadcast", True),
        ("forwarded", True),
    ]


# Hello


def test_a_hello_is_client_id_and_what_else_is_known_with_its_type() -> None:
    assert fit(Hello, HELLO).model_dump() == HELLO
    least = fit(Hello, {"client_id": ""})
    assert (least.protocol, least.host, least.os_user, least.role) == (0, "", "", "cli")


def test_a_hello_ignores_its_token_and_what_is_not_known() -> None:
    tokens: list[Any] = ["t", "", 5, None, {}]
    for token in tokens:
        assert fit(Hello, {**HELLO, "token": token, "later": 1}) == fit(Hello, HELLO)


@pytest.mark.parametrize("value", NO_STRINGS)
@pytest.mark.parametrize(
    "member",
    ["client_id", "app_version", "host", "os_user", "role", "name", "instance", "session_id"],
)
def test_a_hello_does_not_parse_when_a_known_member_is_no_string(member: str, value: Any) -> None:
    assert _refusal(Hello, {**HELLO, member: value}) == f"'{member}' must be a string"


@pytest.mark.parametrize("value", NO_INTEGERS)
@pytest.mark.parametrize("member", ["protocol", "last_seen_revision"])
def test_a_hello_does_not_parse_when_a_number_is_no_integer(member: str, value: Any) -> None:
    assert _refusal(Hello, {**HELLO, member: value}) == f"'{member}' must be an integer"


def test_a_hello_without_client_id_does_not_parse() -> None:
    assert _refusal(Hello, {}) == "'client_id' is missing"


@pytest.mark.parametrize("number", [-1, 2**63, 10**300])
def test_a_hello_s_numbers_may_be_any_integer(number: int) -> None:
    hello = fit(Hello, {**HELLO, "protocol": number, "last_seen_revision": number})
    assert (hello.protocol, hello.last_seen_revision) == (number, number)


# agent.send


@pytest.mark.parametrize("value", NO_STRINGS)
@pytest.mark.parametrize("member", ["from", "to", "text"])
def test_agent_send_names_the_member_that_is_no_string(member: str, value: Any) -> None:
    assert _refusal(AgentSend, {**MAIL, member: value}) == f"'{member}' must be a string"


@pytest.mark.parametrize("value", [1.5, True, [], {}])
def test_agent_send_names_an_id_that_is_neither_string_nor_integer(value: Any) -> None:
    assert _refusal(AgentSend, {**MAIL, "id": value}) == "'id' must be a string or an integer"


@pytest.mark.parametrize("value", ["1-2-3", "", 7, None])
def test_agent_send_keeps_its_id_as_it_came(value: Any) -> None:
    notice = fit(AgentSend, {**MAIL, "id": value})
    assert notice.id == value
    assert type(notice.id) is type(value)
