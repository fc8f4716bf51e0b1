import threading

import pytest

from filing.workers import Workers


def started(count: int) -> Workers:
    workers = Workers(count, "test")
    workers.start()
    return workers


def test_a_job_that_raises_is_logged_and_its_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    workers = started(2)
    done = threading.Event()

    def fail() -> None:
        raise KeyError("unforeseen")

    for _ in range(4):
        workers.read(fail)
        workers.append([fail])
    workers.read(lambda: workers.append([done.set]))
    assert done.wait(10)
    assert "unforeseen" in caplog.text
    workers.stop()


def test_appends_that_hang_leave_a_thread_for_reading() -> None:
    workers = started(3)
    hang, read = threading.Event(), threading.Event()

    def wait() -> None:
        hang.wait(10)

    workers.append([wait] * 20)
    workers.read(read.set)
    assert read.wait(10)
    hang.set()
    workers.stop()


def test_one_worker_would_leave_none_for_reading() -> None:
    with pytest.raises(ValueError, match="two workers"):
        Workers(1, "test")


def test_its_threads_are_daemons_with_names() -> None:
    workers = Workers(2, "sot-filing")
    names = {thread.name for thread in workers._threads}
    assert names == {"sot-filing-1", "sot-filing-2"}
    assert all(thread.daemon for thread in workers._threads)
