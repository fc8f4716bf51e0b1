"""A link's settings: frozen, checked once, each with its default from the contract."""

from dataclasses import dataclass

from topology.endpoints import Endpoint, EndpointError, PipeEndpoint, UnixEndpoint, parse_endpoint
from wire.env import SettingError
from wire.limits import HAND_ON_MARGIN_S, LOCK_WAIT_S, MAX_FILINGS, OFFER_EXTRA_S, WINDOW_EXTRA_S
from wire.server import ServerLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """All that `sot-link run` was told. Times in seconds."""

    self_host: str
    comm_home: str
    hub: str
    listen: UnixEndpoint | PipeEndpoint
    server: ServerLimits
    lock_wait_s: float = LOCK_WAIT_S
    max_filings: int = MAX_FILINGS

    @property
    def file_wait_s(self) -> float:
        """How long one filing may take: the lock wait plus 1 s, the time the hub gives a link."""
        return self.lock_wait_s + OFFER_EXTRA_S

    @property
    def hand_on_wait_s(self) -> float:
        """How long the hub's verdict is waited for: the sender's window less 0.5 s."""
        return self.lock_wait_s + WINDOW_EXTRA_S - HAND_ON_MARGIN_S


def hub_endpoint(named: str | None, derived: str | None) -> str:
    """Return where the hub is dialled. Raises SettingError when nothing names it, or not as an endpoint."""
    text = named or derived
    if not text:
        raise SettingError(
            "no hub is named; give --hub ENDPOINT (or $SOT_HUB), or a hosts.toml that names one"
        )
    return str(_parsed("--hub", text))


def listen_endpoint(text: str) -> UnixEndpoint | PipeEndpoint:
    """Return where this box's own clients reach the link's daemon. Raises SettingError."""
    endpoint = _parsed("--listen", text)
    if not isinstance(endpoint, UnixEndpoint | PipeEndpoint):
        raise SettingError(
            f"--listen {text}: a link serves its own box only; give unix:/path, or pipe:name on Windows"
        )
    return endpoint


def _parsed(flag: str, text: str) -> Endpoint:
    try:
        endpoint = parse_endpoint(text)
    except EndpointError as error:
        raise SettingError(f"{flag} {text}: {error}") from None
    if endpoint == UnixEndpoint("") or getattr(endpoint, "port", None) == 0:
        raise SettingError(f"{flag} {text} names no socket or port to reach")
    return endpoint
