"""The hub's settings: frozen, checked once, each with its default from the contract."""

from dataclasses import dataclass

from topology.endpoints import (
    Endpoint,
    EndpointError,
    PipeEndpoint,
    UnixEndpoint,
    WebSocketEndpoint,
    parse_endpoint,
)
from wire.env import SettingError
from wire.limits import LOCK_WAIT_S, MAX_FILINGS, OFFER_EXTRA_S, WINDOW_EXTRA_S
from wire.server import ServerLimits


class InsecureListenerError(ValueError):
    """A WebSocket listener that nothing secures (WIRE section 3). Exit 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """All that `sot-hub serve` was told. Times in seconds."""

    self_host: str
    comm_home: str
    listen: tuple[Endpoint, ...]
    insecure: bool = False
    lock_wait_s: float = LOCK_WAIT_S
    max_filings: int = MAX_FILINGS
    server: ServerLimits

    @property
    def offer_wait_s(self) -> float:
        """A link's time, and a guest's hub's: the lock wait plus 1 s."""
        return self.lock_wait_s + OFFER_EXTRA_S

    @property
    def window_s(self) -> float:
        """How long a sender waits: the lock wait plus 3 s."""
        return self.lock_wait_s + WINDOW_EXTRA_S


def listen_endpoints(texts: list[str], default: str, *, insecure: bool) -> tuple[Endpoint, ...]:
    """Return where to listen. Raises SettingError for what is no listener, InsecureListenerError."""
    endpoints: list[Endpoint] = []
    for text in texts or [default]:
        try:
            endpoint = parse_endpoint(text)
        except EndpointError as error:
            raise SettingError(f"--listen {text}: {error}") from None
        match endpoint:
            case UnixEndpoint(path=""):
                raise SettingError(f"--listen {text} names no socket: give unix:/path")
            case UnixEndpoint() | PipeEndpoint():
                pass
            case WebSocketEndpoint(secure=True):
                raise SettingError(f"--listen {text}: wss:// is not served; put a TLS proxy before ws://")
            case WebSocketEndpoint():
                if not insecure:
                    raise InsecureListenerError(
                        f"--listen {text}: a WebSocket listener asks for tokens, and this hub has no token "
                        f"store; give --insecure to serve it with neither tokens nor TLS, or listen on unix: "
                        f"and reach it over ssh"
                    )
            case _:
                raise SettingError(f"--listen {text}: listen on unix:/path, pipe:name or ws://host:port/")
        if endpoint in endpoints and getattr(endpoint, "port", None) != 0:  # port 0 is another each time
            raise SettingError(f"--listen {text} is given twice")
        endpoints.append(endpoint)
    return tuple(endpoints)
