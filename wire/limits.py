"""Every number of the wire, by name. WIRE sections 1, 3, 4, 5 and 6; nothing else in the tree repeats one.

Bytes are bytes, times are seconds on the monotonic clock. This module imports nothing, so that a command
that only sends one message can afford it.
"""

# The frame (section 1)
FRAME_VERSION = 1
MAX_FRAME_ID = 2**63 - 1
MAX_OP_CHARS = 64
MAX_FRAME_BYTES = 1_048_575  # of JSON text
MAX_ENVELOPE_BYTES = MAX_FRAME_BYTES + 1  # a line with its LF
MAX_NESTING = 127

# Admission (section 3)
PROTOCOL_VERSION = 3
HELLO_DEADLINE_S = 10.0
MAX_CONNECTIONS = 8192
MAX_HOST_ACCOUNTS = 65_536  # hosts whose OS account the hub remembers

# Requests (section 4)
MAX_IN_FLIGHT = 64  # per connection
MAX_FILINGS = 1024  # in the whole daemon
MAX_FROM_CHARS = 256

# Time for one comm.file (section 5). All three follow the lock wait.
LOCK_WAIT_S = 2.0
OFFER_EXTRA_S = 1.0  # a link, or a guest's hub, gets the lock wait and this
WINDOW_EXTRA_S = 3.0  # the sender waits the lock wait and this
HAND_ON_MARGIN_S = 0.5  # a link's daemon waits for the hub this much less than its sender waits for it

# Links (section 6)
LINK_PING_S = 10.0
LINK_PONG_S = 10.0
SWEEP_S = 0.5  # how often a connection is looked at for silence and for what it has not drained
WRITE_DEADLINE_S = 10.0
WRITE_DEADLINE_S_PER_MIB = 1.0
LINGER_S = 1.0  # a line connection that we close still takes, and drops, what its peer sends
MAX_QUEUED_BYTES = 64 * 1024 * 1024  # written to a peer and not yet taken by it
RECONNECT_FIRST_S = 1.0
RECONNECT_CAP_S = 30.0
RECONNECT_RESET_S = 60.0  # a connection that lasted this long starts the delays afresh
DRAIN_S = 5.0  # at SIGTERM, for what is in flight
DRAIN_TOTAL_S = 8.0  # from SIGTERM to exit, whatever the peers do
CLOSED_LINKS_KEPT = 100  # hub.status: links that ended

# WebSocket close codes
CLOSE_SUPERSEDED = 4001
CLOSE_RESTARTING = 1012

BACKLOG = 1024  # connections that wait to be accepted

SUBPROTOCOL = "sot-comm"
