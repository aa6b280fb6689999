"""How tests name an error of ours: by its code, which stays when the sentence is worded anew.

`says` is a code, or a code and what the sentence must hold beside it, as in "file-missing: toy.npz"; three dots stand
for any words, as in "class-unknown: cat...ant, bee".
"""

import re
from typing import Self

import pytest

from ggeur import GgeurError


class Sentence(str):
    """An error's sentence, which knows its code."""

    code: str = ""

    @classmethod
    def of(cls, error: GgeurError) -> Self:
        self = cls(error)
        self.code = error.code
        return self

    def says(self, says: str) -> bool:
        """Whether it is the error that is meant; where it is not, an AssertionError shows both."""
        code, _, words = says.partition(": ")
        pattern = ".*".join(re.escape(part) for part in words.split("..."))
        found = re.search(pattern, " ".join(self.split()))
        assert self.code == code and found, f"not {says!r}, but {self.code or 'no code'}: {self}"
        return True


def refused(says: str, kind: type[GgeurError] = GgeurError):
    """`pytest.raises` for an error by its code."""
    return pytest.raises(kind, check=lambda error: Sentence.of(error).says(says))
