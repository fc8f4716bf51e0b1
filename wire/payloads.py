"""The payloads of every op, as models: WIRE sections 3 to 5. Checked at the door, trusted behind it.

Members a reader does not know are ignored, at every level. A payload that does not fit is a BadPayloadError
that names the member.
"""

import unicodedata
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from wire.limits import MAX_FROM_CHARS


class BadPayloadError(ValueError):
    """A payload does not fit its op; str() names the member and what it should be."""


class _Payload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(_Payload):
    """What a peer says of itself, section 3. `host` and `os_user` empty count as absent."""

    client_id: StrictStr
    protocol: StrictInt = 0
    app_version: StrictStr = ""
    host: StrictStr = ""
    os_user: StrictStr = ""
    role: StrictStr = "cli"
    name: StrictStr = ""
    instance: StrictStr = ""
    session_id: StrictStr = ""
    last_seen_revision: StrictInt = 0


def _sender(text: str) -> str:
    if len(text) > MAX_FROM_CHARS:
        raise PydanticCustomError("sender", f"must be at most {MAX_FROM_CHARS} characters")
    if any(unicodedata.category(char) == "Cc" for char in text):
        raise PydanticCustomError("sender", "must hold no control character")
    return text


class CommFile(_Payload):
    """One message to file, section 5."""

    sender: Annotated[StrictStr, AfterValidator(_sender)] = Field(alias="from")
    to: StrictStr
    text: StrictStr
    broadcast: StrictBool = False
    forwarded: StrictBool = False


class AgentSend(_Payload):
    """A notice to every connection, section 4."""

    sender: StrictStr = Field(alias="from")
    to: StrictStr
    text: StrictStr
    id: StrictStr | StrictInt | None = None


def offer_payload(request: CommFile) -> dict[str, Any]:
    """Return the payload of an offer or a forward: exactly these members, in this order, forwarded true."""
    return {
        "from": request.sender,
        "to": request.to,
        "text": request.text,
        "broadcast": request.broadcast,
        "forwarded": True,
    }


_Model = TypeVar("_Model", bound=_Payload)


def fit(model: type[_Model], payload: dict[str, Any]) -> _Model:
    """Return `payload` as `model`, or raise BadPayloadError that names the first bad member."""
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        member = str(first["loc"][0]) if first["loc"] else "payload"
        wrong = _WRONG.get((member, first["type"])) or _WRONG.get(first["type"], first["msg"])
        raise BadPayloadError(f"'{member}' {wrong}") from None


_WRONG: dict[str | tuple[str, str], str] = {
    ("id", "string_type"): "must be a string or an integer",
    "missing": "is missing",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "string_unicode": "must be a string without lone surrogates",
}
