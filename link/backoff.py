"""When to dial again: full-jitter exponential backoff (WIRE section 6). Pure; time and chance come in."""

from dataclasses import dataclass

from wire.limits import RECONNECT_CAP_S, RECONNECT_FIRST_S, RECONNECT_RESET_S


@dataclass(frozen=True, slots=True)
class Backoff:
    """How many connections in a row did not last."""

    failures: int = 0

    def after(self, lasted_s: float) -> "Backoff":
        """Return the state after a connection that lasted so long (0 for one that never was)."""
        return Backoff(1 if lasted_s >= RECONNECT_RESET_S else self.failures + 1)

    def delay_s(self, chance: float, *, at_cap: bool = False) -> float:
        """Return how long to wait; `chance` is uniform in [0, 1).

        `at_cap`: what dialling sooner cannot mend (a refused hello, a 401, a newer daemon of this host).
        """
        if at_cap:
            return RECONNECT_CAP_S
        # The exponent is bounded so that years of failures do not make a number too large to compare.
        ceiling = RECONNECT_FIRST_S * 2 ** min(max(self.failures - 1, 0), 16)
        return float(min(RECONNECT_CAP_S, ceiling) * chance)
