"""The entry point by which PyTorch knows the backend "paceline" without any import in the script (pyproject.toml). It runs in `import torch`: it
starts nothing, and must not fail, for that would be everybody's import.
"""

from __future__ import annotations

from typing import Any


def create(options: Any, own: Any) -> Any:
    """The first group of the process is made."""
    from paceline.torch import process_group

    return process_group.create(options, own)


def register() -> None:
    try:
        import torch.distributed as dist

        if dist.is_available() and "paceline" not in dist.Backend.backend_list:
            dist.Backend.register_backend("paceline", create, extended_api=True, devices=["cpu"])
    except Exception:  # noqa: BLE001  # a PyTorch that has no backends: `import paceline.torch` says what is wrong
        pass
