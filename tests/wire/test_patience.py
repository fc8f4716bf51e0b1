"""When a peer is given up: the slow reader and the silent link of WIRE section 6, as pure decisions."""

from wire.connection import Keepalive, Patience, WriteWatch, keepalive

MIB = 1024 * 1024


def _first_slow(watch: WriteWatch, queued: int, looks: range) -> int | None:
    return next((now for now in looks if watch.is_slow(now, queued)), None)


def test_a_peer_that_takes_nothing_is_slow_after_ten_seconds_and_one_a_mebibyte() -> None:
    assert _first_slow(WriteWatch(sent=100), 100, range(60)) == 11  # the first look past 10 s and a trifle
    assert _first_slow(WriteWatch(sent=5 * MIB), 5 * MIB, range(60)) == 15
    assert _first_slow(WriteWatch(sent=9000 + MIB), MIB // 2, range(60)) == 11


def test_a_peer_with_nothing_queued_is_never_slow() -> None:
    watch = WriteWatch()
    for now in range(100):
        watch.sent += 1000
        assert not watch.is_slow(now, 0)


def test_a_peer_that_takes_each_frame_in_time_is_not_slow_though_something_is_always_queued() -> None:
    watch = WriteWatch()
    for now in range(100):
        watch.sent += 1000
        assert not watch.is_slow(now, 9000)  # nine seconds behind


def test_a_peer_that_falls_ever_further_behind_is_slow() -> None:
    watch = WriteWatch()
    sent = queued = 0
    for now in range(100):
        sent, queued = sent + 1000, queued + 900
        watch.sent = sent
        if watch.is_slow(now, queued):
            break
    # It takes 100 bytes a second: what was there at the first look is gone in time, what came next is not.
    assert now == 12


def test_a_frame_sent_later_has_its_own_ten_seconds() -> None:
    watch = WriteWatch(sent=100)
    assert not watch.is_slow(0, 100)
    watch.sent += 100
    assert not watch.is_slow(9, 200)
    assert not watch.is_slow(9.9, 100)  # the first was taken
    assert not watch.is_slow(18.9, 100)
    assert watch.is_slow(19.1, 100)


def test_an_empty_queue_starts_afresh() -> None:
    watch = WriteWatch(sent=100)
    assert not watch.is_slow(0, 100)
    assert not watch.is_slow(9, 0)
    watch.sent += 100
    assert not watch.is_slow(10, 100)
    assert not watch.is_slow(19.9, 100)
    assert watch.is_slow(20.1, 100)


def test_what_is_remembered_of_a_peer_that_takes_nothing_is_bounded_by_the_looks_of_one_deadline() -> None:
    watch = WriteWatch()
    looks = 0
    while not watch.is_slow(looks, max(1, watch.sent)):
        watch.sent += 1
        looks += 1
    assert len(watch._due) == looks == 12


def test_the_write_deadline_is_a_setting() -> None:
    patience = Patience(write_s=1, write_s_per_mib=0)
    watch = WriteWatch(sent=5 * MIB)
    assert not watch.is_slow(0, 5 * MIB, patience)
    assert watch.is_slow(1, 5 * MIB, patience)


# The keepalive


def _life_of_a_silent_link(sweep_s: float, patience: Patience, offset: float) -> tuple[float, float]:
    """Return when a link that says nothing more is pinged, and when it is given up."""
    pinged_at, now = 0.0, offset
    while True:
        match keepalive(now, pinged=pinged_at > 0, sweep_s=sweep_s, patience=patience):
            case Keepalive.PING:
                assert pinged_at == 0
                pinged_at = now
            case Keepalive.DEAD:
                return pinged_at, now
            case Keepalive.NOTHING:
                pass
        now += sweep_s


def test_a_silent_link_is_pinged_once_and_gone_within_twenty_seconds_whenever_the_sweep_looks() -> None:
    for offset in (0.0, 0.1, 0.5, 0.9, 0.999):
        pinged, dead = _life_of_a_silent_link(1.0, Patience(), offset)
        assert 10 <= pinged <= 11
        assert 19 <= dead <= 20


def test_a_link_that_was_not_pinged_is_never_given_up() -> None:
    assert keepalive(1000, pinged=False, sweep_s=1) is Keepalive.PING


def test_a_link_that_speaks_is_left_alone() -> None:
    for silent_s in (0, 1, 8.9):
        assert keepalive(silent_s, pinged=False, sweep_s=1) is Keepalive.NOTHING
        assert keepalive(silent_s, pinged=True, sweep_s=1) is Keepalive.NOTHING


def test_the_keepalive_s_times_are_settings() -> None:
    pinged, dead = _life_of_a_silent_link(0.25, Patience(ping_s=1, pong_s=2), 0.0)
    assert (pinged, dead) == (1.0, 2.75)
