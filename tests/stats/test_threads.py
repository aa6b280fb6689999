"""One thread for linear algebra inside, as many as before outside, also after an error."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ggeur.stats.threads import single_threaded


def threads():
    np.eye(2) @ np.eye(2)
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_inside_there_is_one_and_what_is_called_may_allow_more():
    def two():
        with threadpool_limits(2):
            return threads()

    with threadpool_limits(2):
        assert single_threaded(threads)() == {1}
        assert single_threaded(two)() == {2}
        assert threads() == {2}


def test_an_error_leaves_as_many_as_there_were():
    @single_threaded
    def broken():
        raise ValueError

    with threadpool_limits(2):
        with pytest.raises(ValueError):
            broken()
        assert threads() == {2}
