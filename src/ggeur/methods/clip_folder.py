"""The place of a CLIP model on this machine: named, or among the files that the hub's library keeps."""

from pathlib import Path

from ggeur.methods.algorithm import Task
from ggeur.stats.errors import Unavailable


def clip_folder(task: Task, named: str) -> str:
    """Return the folder `named` in [method.NAME] clip, or that of the hub's files of the table's encoder."""
    folder = task.clip or named
    if folder:
        if not Path(folder).is_dir():
            raise Unavailable(
                f"There is no folder {folder}, where a CLIP model with its text tower should be.", code="folder-missing"
            )
        return str(Path(folder).absolute())
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(task.encoder, "model.safetensors")
    except Exception:  # the library is not there, or the name is not one of the hub's
        found = None
    if not isinstance(found, str):
        made = f"the table's encoder is '{task.encoder}'" if task.encoder else "the table does not name its encoder"
        raise Unavailable(
            f"A text tower is needed, and {made}, which the hub's files here do not hold: name a folder of CLIP's, "
            'with model.safetensors, as [method.fedtpg] clip = "FOLDER".',
            code="text-tower-missing",
        )
    return str(Path(found).parent)
