"""How many threads linear algebra may take: one, but where products are so large that a second one pays."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
T = TypeVar("T")


def single_threaded(f: Callable[P, T]) -> Callable[P, T]:
    """Return `f` with one thread for linear algebra: of small products, threads mostly wait for each other.

    Waiting costs processor time, several times that of the work itself where a machine is busy. And the number of
    threads decides the last digits. What `f` calls may allow more, as `methods/oneshot/descent` does.
    """

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with threadpool_limits(1):
            return f(*args, **kwargs)

    return call
