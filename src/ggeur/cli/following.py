"""Progress of a job: a bar on a terminal, a line every half minute elsewhere, JSON events, or nothing with --quiet."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Protocol

from ggeur.cli.screen import Voice, console, event, progress_bar, say, voice

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_FIRST, _EVERY = 10.0, 30.0  # seconds until the first line, and between two
_SURE = 0.05  # share of a job after which its rate predicts the remaining time (or _FIRST seconds)
_RECENT, _AT_ONCE = 120.0, 1.0  # window of the rate, and steps closer together count as one, in seconds


class Follow(Protocol):
    """The callback by which a job reports progress."""

    def __call__(self, done: int, total: int | None = None, words: str = "", computed: int | None = None) -> None:
        """Report `done` of `total` (which may come late), the newest item in `words`, and how many were not cached."""


@contextmanager
def following(
    what: str, unit: str, total: int | None, done: int = 0, *columns: "ProgressColumn", begin: bool = True
) -> Iterator[Follow]:
    """Show the progress of the job `what`: `total` items called `unit`, of which `done` were finished before.

    `columns` are added to the bar. With `begin` false it appears only after one second.
    """
    pace = _Pace(what, unit, total, done)
    if voice() is Voice.EVENTS:

        def tell(done: int, total: int | None = None, words: str = "", computed: int | None = None) -> None:
            pace(done, total, words, computed)
            event("progress", **pace.facts())

        yield tell
    elif voice() is Voice.QUIET:
        yield pace
    elif console.is_terminal:
        bar, first = progress_bar(pace, *columns), inf
        task = bar.add_task(what, total=total, completed=done, computed=0)

        def show(done: int, total: int | None = None, words: str = "", computed: int | None = None) -> None:
            nonlocal first
            first = min(first, time.monotonic())
            pace(done, total, words, computed)
            bar.update(task, completed=done, total=pace.total, description=words or what, computed=computed or 0)
            if not bar.live.is_started and time.monotonic() - first > 1:
                bar.start()

        if begin:
            bar.start()
        try:
            yield show
        finally:
            bar.stop()
    else:
        at = time.monotonic() + _FIRST

        def line(done: int, total: int | None = None, words: str = "", computed: int | None = None) -> None:
            nonlocal at
            pace(done, total, words, computed)
            if time.monotonic() >= at:
                at = time.monotonic() + _EVERY
                say(pace.line())

        yield line
        if begin and pace.done:
            say(pace.last_line())


@contextmanager
def following_phases() -> Iterator[None]:
    """Print a line as each phase of the work in the block begins, with the seconds until then."""
    from ggeur.stats.long_jobs import followed_by

    if voice() is Voice.QUIET:
        yield
        return
    if voice() is Voice.EVENTS:
        with followed_by(lambda name, done, total: event("phase", phase=name, done=done, total=total)):
            yield
        return
    shown: list[str] = []
    began = time.monotonic()

    def line(name: str, done: int, total: int) -> None:
        if name not in shown:
            shown.append(name)
            console.print(f"[dim]{time.monotonic() - began:6.1f} s  {name}[/]", highlight=False)

    with followed_by(line):
        yield


class _Pace:
    """Progress and remaining time of a job, from the recent rate: rounds of methods differ in speed."""

    def __init__(self, what: str, unit: str, total: int | None, done: int) -> None:
        self.what, self.unit, self.total, self.done = what, unit, total, done
        self._before, self._began, self._words, self._computed = done, time.monotonic(), "", 0
        self._marks = deque([(self._began, 0)])  # when so many were computed

    def __call__(self, done: int, total: int | None = None, words: str = "", computed: int | None = None) -> None:
        self.done, self._words = done, words
        self.total = self.total if total is None else total
        self._computed = done - self._before if computed is None else computed
        now = time.monotonic()
        # Trials that train side by side end their rounds together, so the rate is from first to first.
        if now - self._marks[-1][0] >= _AT_ONCE:
            self._marks.append((now, self._computed))
        while len(self._marks) > 2 and self._marks[1][0] <= now - _RECENT:
            self._marks.popleft()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def rate(self) -> float | None:
        """Return the items computed per second of late, without those from the cache."""
        (then, few), (now, many) = self._marks[0], self._marks[-1]
        if many > few:
            return (many - few) / (now - then)
        return self._computed / self.seconds if self._computed and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Return the remaining seconds if nothing more is cached; None while the job compiles and warms up."""
        if self.rate is None or self.total is None:
            return None
        early = self.done - self._before < _SURE * (self.total - self._before) and self.seconds < _FIRST
        return None if early else max(self.total - self.done, 0) / self.rate

    def facts(self) -> dict[str, object]:
        """Return the fields of a progress event."""
        rounded = {"rate": self.rate, "seconds": self.seconds, "left": self.left}
        return {"what": self.what, "unit": self.unit, "done": self.done, "total": self.total} | {
            name: None if value is None else round(value, 3) for name, value in rounded.items()
        }

    def line(self) -> str:
        """Return a line as "embedding: 640 of 2,533 images, 21 a second, 1.5 min left", with the newest item."""
        from ggeur.stats.long_jobs import human_seconds

        of = "" if self.total is None else f" of {self.total:,}"
        pace = "" if self.rate is None else f", {self.rate:.3g} a second"
        left = "" if self.left is None else f", {human_seconds(self.left)} left"
        start, words = f"{self.what}: {self.done:,}{of} {self.unit}", f"; {self._words}" if self._words else ""
        forms = (f"{start}{pace}{left}{words}", f"{start}{left}{words}", f"{start}{pace}{left}")
        return next((form for form in forms if len(form) <= console.width), forms[-1])

    def last_line(self) -> str:
        """Return the line for a finished job."""
        from ggeur.stats.long_jobs import human_seconds

        cached = ", from the cache" if not self._computed and self.done > self._before else ""
        return f"{self.what}: {self.done:,} {self.unit} in {human_seconds(self.seconds)}{cached}"
