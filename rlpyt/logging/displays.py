"""Where the console's lines go: a terminal, a notebook, a file or pipe, nowhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO, get_args

from rlpyt.errors import UsageError
from rlpyt.logging.block import Line
from rlpyt.logging.text import printable
from rlpyt.suggest import did_you_mean

if TYPE_CHECKING:
    from rich.text import Text

Mode = Literal["auto", "plain", "quiet"]


class Display(Protocol):
    """Lines that stay, and below them a block that is redrawn."""

    live: bool  # whether show() does anything

    @property
    def width(self) -> int: ...

    def say(self, line: str) -> None:
        """Write a line that stays."""
        ...

    def show(self, lines: list[Line]) -> None:
        """Redraw the block."""
        ...

    def close(self) -> None:
        """Leave the block where it is and give the terminal back."""
        ...


def check(mode: str) -> None:
    """Refuse a way of showing that there is not."""
    if mode not in get_args(Mode):
        known = get_args(Mode)
        nearest = did_you_mean(str(mode), known)
        raise UsageError(f"mode={mode!r} must be one of {', '.join(known)}{nearest}")


def choose(mode: Mode, stream: TextIO | None) -> Display:
    """The display for a stream; None is standard output, or the notebook's cell."""
    if mode == "quiet":
        return Plain(None)
    if mode == "plain":
        return Plain(stream or sys.stdout)
    if stream is None and "ipykernel" in sys.modules:
        return Notebook()
    stream = stream or sys.stdout  # None where a process was started without one
    return Terminal(stream) if stream is not None and _can_redraw(stream) else Plain(stream)


def _can_redraw(stream: TextIO) -> bool:
    """Whether it is a terminal that can move its cursor and show the block's characters."""
    if stream.closed or not stream.isatty() or os.environ.get("CI"):
        return False
    if os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return False
    return printable("━╸▁█±", stream.encoding) == "━╸▁█±"


class Terminal:
    """A block in place, by rich; it obeys NO_COLOR."""

    live = True

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False, emoji=False)
        # Redrawn by who trains, not by a thread; what environments print appears above the block.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=_is_terminal(sys.stdout),
            redirect_stderr=_is_terminal(sys.stderr),
        )

    @property
    def width(self) -> int:
        return self._console.width

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def show(self, lines: list[Line]) -> None:
        from rich.console import Group

        if not self._live.is_started:
            self._live.start()
        self._live.update(Group(*(_text(line) for line in lines)), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Notebook:
    """A cell's output that is updated in place; needs nothing but IPython."""

    live = True
    width = 110

    def __init__(self) -> None:
        self._handle: Any = None

    def say(self, line: str) -> None:
        print(line)

    def show(self, lines: list[Line]) -> None:
        import html

        from IPython.display import display  # type: ignore[import-not-found]

        text = "\n".join("".join(piece for piece, _ in line) for line in lines)
        page = f"<pre style='line-height:1.25'>{html.escape(text)}</pre>"
        bundle = {"text/plain": text, "text/html": page}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def close(self) -> None:
        pass


class Plain:
    """Lines one after the other; without a stream, nothing."""

    live = False
    width = 10_000

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        if self._stream is not None:
            self._stream.write(printable(line, self._stream.encoding) + "\n")
            self._stream.flush()

    def show(self, lines: list[Line]) -> None:
        pass

    def close(self) -> None:
        pass


def _text(line: Line) -> Text:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    for piece, style in line:
        text.append(piece, style or None)
    return text


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
