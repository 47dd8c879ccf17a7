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

from paceline._errors import PacelineError
from paceline._joining import MEETING
from paceline._library_node import Coordinator, Server
from paceline._node import Place


@dataclasses.dataclass
class PacelineConfig(BackendConfig):  # type: ignore[misc]
    """port: at which the coordinator listens, on its node; 0: a free one. job_key_file: of the key that all ranks share, at the same path on every
    node; without it only processes on one machine may train together. servers: so many, as actors of their own that are spread over the nodes, each
    with server_resources; the first one's process is the coordinator's too. 0: each worker's process is a server, the first one's the coordinator's.

    After a failure Ray starts all workers and servers again (FailureConfig), with another coordinator; what is kept is what ray.train.report was given.
    """

    port: int = 0
    job_key_file: str = ""
    servers: int = 0
    server_resources: dict[str, float] = dataclasses.field(default_factory=lambda: {"CPU": 1.0})

    @property
    def backend_cls(self) -> type[Backend]:
        return _Backend


class _Backend(Backend):  # type: ignore[misc]
    def __init__(self) -> None:
        self._bundles: Any = None  # of Ray's resources, for the servers
        self._servers: list[Any] = []

    def on_start(self, worker_group: Any, backend_config: PacelineConfig) -> None:
        import ray

        self.on_shutdown(worker_group, backend_config)  # of an attempt that did not come to its end
        ranks = len(worker_group)
        nodes = {worker_group.execute_single(rank, _node) for rank in range(ranks)}
        if backend_config.servers:
            self._reserve(backend_config)
            nodes |= set(ray.get([server.node.remote() for server in self._servers]))
            coordinator = ray.get(self._servers[0].coordinate.remote(ranks, backend_config, len(nodes) == 1))
            ray.get([server.serve.remote(coordinator, backend_config.job_key_file) for server in self._servers])
        else:
            coordinator = worker_group.execute_single(0, _address, backend_config.port, len(nodes) == 1)
        for rank in range(ranks):
            worker_group.execute_single(rank, _tell, rank, ranks, coordinator, backend_config)

    def on_shutdown(self, worker_group: Any, backend_config: PacelineConfig) -> None:
        import ray
        import ray.util

        for server in self._servers:
            ray.kill(server)
        if self._bundles is not None:
            ray.util.remove_placement_group(self._bundles)
        self._servers, self._bundles = [], None

    def _reserve(self, config: PacelineConfig) -> None:
        import ray
        import ray.util
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._bundles = ray.util.placement_group([config.server_resources] * config.servers, strategy="SPREAD")
        if not self._bundles.wait(MEETING):
            raise PacelineError(f"Ray had no {config.server_resources} for each of {config.servers} servers within {MEETING:g} s; give it more, or server_resources less", subject="servers")
        resources = dict(config.server_resources)
        taken = {"num_cpus": resources.pop("CPU", 0), "num_gpus": resources.pop("GPU", 0), "resources": resources}
        bundles = [PlacementGroupSchedulingStrategy(self._bundles, placement_group_bundle_index=index) for index in range(config.servers)]
        self._servers = [ray.remote(_Server).options(**taken, scheduling_strategy=bundle).remote() for bundle in bundles]


class _Server:
    """An actor: a server of the job, and the coordinator beside one of them."""

    def __init__(self) -> None:
        self._hosted: list[Coordinator | Server] = []

    def node(self) -> str:
        return _node()

    def coordinate(self, ranks: int, config: PacelineConfig, one_node: bool) -> str:
        coordinator = Coordinator(ranks, config.servers, listen=f"{_host(one_node)}:{config.port}", key=Place(job_key_file=config.job_key_file))
        self._hosted.append(coordinator)
        return coordinator.address

    def serve(self, coordinator: str, job_key_file: str) -> None:
        self._hosted.append(Server(Place(role="server", coordinator=coordinator, job_key_file=job_key_file)))


def _node() -> str:
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def _host(one_node: bool) -> str:
    """The address of this process's node, as the others reach it."""
    import ray.util

    return "127.0.0.1" if one_node else str(ray.util.get_node_ip_address())


def _address(port: int, one_node: bool) -> str:
    """Of this worker, with a port that is free."""
    host = _host(one_node)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, port))
        return f"{host}:{probe.getsockname()[1]}"


def _tell(rank: int, ranks: int, coordinator: str, config: PacelineConfig) -> None:
    for name in ("RANK", "WORLD_SIZE", "PACELINE_SERVERS"):  # of an earlier backend in this process
        os.environ.pop(name, None)
    os.environ.update(PACELINE_RANK=str(rank), PACELINE_WORKERS=str(ranks), PACELINE_COORDINATOR=coordinator)
    if config.servers:
        os.environ["PACELINE_SERVERS"] = str(config.servers)
    if config.job_key_file:
        os.environ["PACELINE_JOB_KEY_FILE"] = config.job_key_file
