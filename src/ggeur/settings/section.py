"""What every section of the experiment file shares."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Numbers are strict: `true` is not 1, and "3" is not 3.
Size = Annotated[int, Field(strict=True, gt=0, le=10**7)]  # past which memory would run out, not sense begin
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Above = Annotated[float, Field(strict=True, gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @property
    def key(self) -> str:
        """Equal for sections that say the same; parameters of a user's own need not be hashable."""
        return repr(self.model_dump())  # not JSON, to which inf and nan are one
