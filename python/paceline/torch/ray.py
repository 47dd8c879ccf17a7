"""Ray Train: PacelineConfig in the place of TorchConfig, for training functions that call paceline.torch.attach.

    trainer = DataParallelTrainer(train, backend_config=PacelineConfig(), scaling_config=ScalingConfig(num_workers=4))

Workers find each other without a process group of torch. Functions that have DistributedDataParallel take TorchConfig(backend="paceline").
"""

from __future__ import annotations

import dataclasses
import os
import socket
from typing import Any

from ray.train.backend import Backend, BackendConfig


@dataclasses.dataclass
class PacelineConfig(BackendConfig):  # type: ignore[misc]
    """port: at which the first worker's coordinator listens, on its node; 0: a free one. job_key_file: of the key that all ranks share, at the same
    path on every node; without it only workers on one machine may train together.

    After a failure Ray starts all workers again (FailureConfig), with another coordinator; what is kept is what ray.train.report was given.
    """

    port: int = 0
    job_key_file: str = ""

    @property
    def backend_cls(self) -> type[Backend]:
        return _Backend


class _Backend(Backend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: PacelineConfig) -> None:
        ranks = len(worker_group)
        nodes = {worker_group.execute_single(rank, _node) for rank in range(ranks)}
        coordinator = worker_group.execute_single(0, _address, backend_config.port, len(nodes) == 1)
        for rank in range(ranks):
            worker_group.execute_single(rank, _tell, rank, ranks, coordinator, backend_config.job_key_file)


def _node() -> str:
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def _address(port: int, one_node: bool) -> str:
    """Of this worker, as the others reach it."""
    import ray.util

    host = "127.0.0.1" if one_node else ray.util.get_node_ip_address()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, port))
        return f"{host}:{probe.getsockname()[1]}"


def _tell(rank: int, ranks: int, coordinator: str, job_key_file: str) -> None:
    for name in ("RANK", "WORLD_SIZE"):  # of an earlier backend in this process
        os.environ.pop(name, None)
    os.environ.update(PACELINE_RANK=str(rank), PACELINE_WORKERS=str(ranks), PACELINE_COORDINATOR=coordinator)
    if job_key_file:
        os.environ["PACELINE_JOB_KEY_FILE"] = job_key_file
