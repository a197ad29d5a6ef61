"""States to save that their number tells apart."""

from pathlib import Path
from typing import Any

import numpy as np
import torch


def state_at(env_steps: int) -> dict[str, Any]:
    values = torch.arange(5.0) + env_steps
    return {"weights": values, "counter": env_steps, "rows": (np.full(3, env_steps), (), None)}


def is_state_at(env_steps: int, state: Any) -> bool:
    return (
        torch.equal(state["weights"], torch.arange(5.0) + env_steps)
        and state["counter"] == env_steps
        and state["rows"][0].tolist() == [env_steps] * 3
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
