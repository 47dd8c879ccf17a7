"""By what PyTorch knows the backend "paceline" without any import in the script: its entry points are in pyproject.toml."""

from __future__ import annotations

from typing import Any


def create(options: Any, own: Any) -> Any:
    """The first group of the process is made."""
    from paceline.torch.backend import process_group

    return process_group.create(options, own)


def register() -> None:
    """PyTorch 2.14 and newer call it when the name is asked for the first time."""
    import torch.distributed as dist

    if dist.is_available() and "paceline" not in dist.Backend.backend_list:
        dist.Backend.register_backend("paceline", create, extended_api=True, devices=["cpu", "cuda"])


def looks_up() -> bool:
    """Whether this PyTorch looks the name up, and takes Python backends below groups of its own."""
    import torch.distributed as dist

    return dist.is_available() and hasattr(dist.Backend, "_ensure_backend_registered")


def autoload() -> None:
    """Older PyTorch calls it in `import torch`: it starts nothing, and must not fail, for that would be everybody's import."""
    try:
        if not looks_up():
            register()
    except Exception:  # noqa: BLE001  # a PyTorch that has no backends: `import paceline.torch` says what is wrong
        pass
