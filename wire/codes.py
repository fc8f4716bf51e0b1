"""Refusal codes of the connection and of the ops, and their sentences: WIRE sections 2 to 4.

The codes of a verdict on mail (section 5) live with the verdict, in `filing.outcome`.
"""

UNAUTHENTICATED = "unauthenticated"
PROTOCOL_MISMATCH = "protocol_mismatch"
IDENTITY_MISSING = "identity_missing"
IDENTITY_MISMATCH = "identity_mismatch"
UNKNOWN_HOST = "unknown_host"
OS_USER_CONFLICT = "os_user_conflict"
TOO_MANY_CONNECTIONS = "too_many_connections"

BAD_REQUEST = "bad_request"
UNKNOWN_OP = "unknown_op"
FORBIDDEN = "forbidden"
MAIL_REQUIRES_COMM_FILE = "mail_requires_comm_file"
INTERNAL_ERROR = "internal_error"

HELLO_FIRST = "the first frame must be a hello request"
NO_BLOB = "payload.blob is served by no op; send the request without it"
MAIL_NEEDS_COMM_FILE = (
    "agent.send carries notices to every connection; mail to a handle is a comm.file request"
)
INTERNAL = "the daemon failed while it served this request; its log says why"


def unknown_op(op: str) -> str:
    return f"unknown op: {op}"
