"""The log's thread: lines in order, none lost while stderr takes them, counted when it does not."""

import logging
import os

from wire.log_writer import LogWriter


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("sot", logging.INFO, __file__, 1, text, None, None)


def test_lines_come_out_whole_and_in_order() -> None:
    reader, writer = os.pipe()
    log = LogWriter(writer)
    for number in range(100):
        log.emit(record(f"line {number}"))
    log.close()
    os.close(writer)
    with os.fdopen(reader) as lines:
        assert lines.read() == "".join(f"line {number}\n" for number in range(100))


def test_what_an_unread_pipe_does_not_take_is_dropped_and_counted() -> None:
    reader, writer = os.pipe()
    log = LogWriter(writer, lines_kept=10)
    for _ in range(3000):
        log.emit(record("x" * 100))
    with os.fdopen(reader) as lines:
        dropped = ""
        while "were dropped" not in dropped:
            dropped = lines.readline()
            log.emit(record("more"))
        log.close()
        os.close(writer)
        lines.read()
    assert int(dropped.split()[0]) > 0


def test_a_broken_stderr_is_given_up_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = LogWriter(writer)
    log.emit(record("nobody reads this"))
    log.emit(record("nor this"))
    log.close()
    os.close(writer)
