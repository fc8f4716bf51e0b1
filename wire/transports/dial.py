"""Dialling any endpoint of WIRE section 2, by its text."""

import ssl
from collections.abc import Callable

from wire.connection import Connection, FrameSink

SinkFactory = Callable[[Connection], FrameSink]


async def dial(
    endpoint: str, sink_of: SinkFactory, *, timeout_s: float, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect to `endpoint` (a text that parses as one) and attach what `sink_of` makes.

    Raises OSError when nothing answers there, TimeoutError past `timeout_s`.
    """
    scheme, _, rest = endpoint.partition(":")
    match scheme:
        case "unix":
            from wire.transports import unix

            return await unix.dial(rest, sink_of, timeout_s=timeout_s)
        case "ws" | "wss":
            from wire.transports import ws

            return await ws.dial(endpoint, sink_of, timeout_s=timeout_s, tls=tls)
        case "ssh":
            from wire.transports import ssh

            if "/" in rest:
                raise OSError(
                    f"{endpoint} names a daemon behind the login; give ssh:<hub>, the hub's own login"
                )
            return await ssh.dial(rest, sink_of)
        case "pipe":
            from wire.transports import pipe

            return await pipe.dial(rest, sink_of, timeout_s=timeout_s)
        case _:
            raise OSError(f"{endpoint} is no endpoint to dial: unix:, ws://, wss://, ssh: or pipe:")
