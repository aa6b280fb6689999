"""The one error that a user's mistake may raise, a kind of it that a run outlives, and the one warning."""


class GgeurError(Exception):
    """Bad input or an impossible request, told in one sentence: what, where, and what to do.

    The command line prints it and exits with code 2; everything else is a defect of ours. `code` names the mistake for
    programs, and stays when the `sentence` is worded anew.

    >>> import ggeur
    >>> try:
    ...     ggeur.partition.dirichlet([0, 0, 1], clients=2, beta=-1.0)
    ... except ggeur.GgeurError as error:
    ...     print(f"{error.code}: {error}")
    partition-beta-invalid: beta is -1.0; a Dirichlet parameter must be positive and below 1e300.
    """

    def __init__(self, sentence: str, *, code: str = "unspecified") -> None:
        super().__init__(sentence)
        self.code = code


class Unavailable(GgeurError):
    """A request needs something that is absent: an arm that needs it is left out of a run, and the others go on."""


class GgeurWarning(UserWarning):
    """Legal, but probably not what was meant.

    >>> import warnings
    >>> warnings.simplefilter("error", GgeurWarning)  # to have none of it
    >>> warnings.simplefilter("default", GgeurWarning)
    """
