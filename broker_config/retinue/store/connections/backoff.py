"""How long to leave a server alone that cannot be reached."""


class Backoff:
    """Pauses that double.

    Args:
        first_s: The first pause, in seconds.
        longest_s: What none exceeds.
    """

    __slots__ = ("_first_s", "_longest_s", "_next_s")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = min(first_s, longest_s)
        self._longest_s = longest_s
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Seconds to pause after one more failure."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Notes a success: the next pause is the first again."""
        self._next_s = self._first_s
