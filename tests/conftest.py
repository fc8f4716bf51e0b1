"""What holds for the whole suite."""

import signal


def pytest_configure() -> None:
    """Have signals at their defaults, as a terminal gives them.

    A runner in the background leaves SIGINT and SIGHUP ignored, and every process that a test starts and then
    interrupts would inherit that.
    """
    for number in (signal.SIGINT, *_OF_A_TERMINAL):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


_OF_A_TERMINAL = [getattr(signal, name) for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name)]
