"""The base of all sections of the experiment file."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Numbers are strict: `true` is not 1, and "3" is not 3.
Size = Annotated[int, Field(strict=True, gt=0, le=10**7)]  # larger values would run out of memory
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Above = Annotated[float, Field(strict=True, gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @property
    def key(self) -> str:
        """Return a key that is equal for equal sections; custom parameters need not be hashable."""
        return repr(self.model_dump())  # not JSON, in which inf and nan are the same
