"""Why a connection ended: one enum for the log, the metrics, the roster and the status page."""

from enum import StrEnum

from wire.limits import CLOSE_RESTARTING, CLOSE_SUPERSEDED


class CloseReason(StrEnum):
    """Why a connection ended, told by the side that knows."""

    PEER_LEFT = "peer_left"
    PEER_SHUTDOWN = "peer_shutdown"
    CONNECTION_LOST = "connection_lost"
    HELLO_TIMEOUT = "hello_timeout"
    HELLO_REFUSED = "hello_refused"
    SECOND_HELLO = "second_hello"
    BAD_FRAME = "bad_frame"
    BAD_MESSAGE = "bad_message"
    BLOB = "blob"
    OTHER_ACCOUNT = "other_account"
    SLOW_PEER = "slow_peer"
    QUEUE_FULL = "queue_full"
    KEEPALIVE = "keepalive"
    SUPERSEDED = "superseded"
    SHUTDOWN = "shutdown"
    CROWDED = "crowded"
    INTERNAL_ERROR = "internal_error"


def websocket_close_code(reason: CloseReason) -> int:
    """Return the RFC 6455 close code that says `reason` to a WebSocket peer."""
    return _CLOSE_CODES.get(reason, 1000)


def reason_of_close_code(code: int) -> CloseReason:
    """Return what a close code received from a peer means to us."""
    return _REASONS.get(code, CloseReason.PEER_LEFT)


_CLOSE_CODES = {
    CloseReason.SUPERSEDED: CLOSE_SUPERSEDED,
    CloseReason.SHUTDOWN: CLOSE_RESTARTING,
    CloseReason.HELLO_REFUSED: 1008,
    CloseReason.BAD_FRAME: 1007,
    CloseReason.CROWDED: 1013,
    CloseReason.INTERNAL_ERROR: 1011,
}
_REASONS = {
    CLOSE_SUPERSEDED: CloseReason.SUPERSEDED,
    CLOSE_RESTARTING: CloseReason.PEER_SHUTDOWN,
    1001: CloseReason.PEER_SHUTDOWN,
    1002: CloseReason.BAD_MESSAGE,
    1003: CloseReason.BAD_MESSAGE,
    1007: CloseReason.BAD_MESSAGE,
    1009: CloseReason.BAD_MESSAGE,
    1006: CloseReason.CONNECTION_LOST,
}
