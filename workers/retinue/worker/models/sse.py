"""Server-sent events, as far as model servers use them: the data of each event, nothing else.

The SDK's own decoder builds an object per event and loses the difference between an ended and a cut stream.
Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

import codecs


class SseDecoder:
    """Turns bytes, cut anywhere, into the data of whole events."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest: list[str] = []
        self._data: list[str] = []

    def feed(self, chunk: bytes, *, final: bool = False) -> list[str]:
        """The data of the events that `chunk` completes; `final` ends an event without its blank line."""
        self._rest.append(self._decode(chunk, final))
        # A line may come in thousands of chunks: it is looked through once, when its end is there.
        if not final and not any(end in piece for piece in self._rest[-2:] for end in "\r\n"):
            return []
        text = "".join(self._rest)
        if text.endswith("\r") and not final:
            # Half of a CRLF looks like a line end of its own.
            text, held = text[:-1], "\r"
        else:
            held = ""
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = [lines.pop() + held]
        if final:
            lines += [*self._rest, ""]
            self._rest.clear()
        events: list[str] = []
        for line in lines:
            self._take(line, events)
        return events

    def _take(self, line: str, events: list[str]) -> None:
        if line.startswith("data:"):
            self._data.append(line[6:] if line.startswith("data: ") else line[5:])
        elif not line and self._data:
            events.append("\n".join(self._data))
            self._data.clear()
