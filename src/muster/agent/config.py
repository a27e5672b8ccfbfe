"""How an agent is set up: `agent.yaml`, or a W&B launch-config.yaml as it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.domain.errors import BadConfigFile, nearest

KEYS = ("url", "entity", "queues", "max_jobs", "engine", "name", "env_allow", "data_dir", "kubernetes")
ENGINES = ("process", "kubernetes")
CLUSTER_KEYS = ("kubeconfig", "context", "namespace", "namespaces", "cluster", "kinds", "objects")
#: Keys of W&B's agent that say nothing to this one: read, named in a warning, passed over.
WANDB_KEYS = (
    "environment",
    "registry",
    "builder",
    "verbosity",
    "max_schedulers",
    "secure_mode",
    "stopped_run_timeout",
)
UNLIMITED = 100_000
IN_CLUSTER = 500  #: runs at once where a cluster places them, unless told otherwise


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """Which cluster, and where in it: the `kubernetes:` block."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    namespaces: tuple[str, ...] = ()
    cluster: str | None = None
    kinds: tuple[str, ...] = ()  #: of workloads that its queues have, beside Jobs
    objects: tuple[str, ...] = ()  #: kinds that go with them, beside Services, ConfigMaps and Secrets


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    data_dir: Path
    url: str | None = None
    entity: str | None = None
    queues: tuple[str, ...] = ("local",)
    max_jobs: int = 0  #: 0: as many as fit the machine's CPUs, at least 4
    engine: str = "process"
    name: str = field(default_factory=socket.gethostname)
    kubernetes: ClusterConfig = field(default_factory=ClusterConfig)
    env_allow: tuple[str, ...] = ()  #: variables of the agent that templates may use as macros
    passed_over: tuple[str, ...] = ()  #: keys that were understood and ignored

    def macros(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What templates may use of the agent's environment."""
        return {name: environ[name] for name in self.env_allow if name in environ}

    def jobs(self) -> int:
        default = IN_CLUSTER if self.engine == "kubernetes" else max(4, 2 * (os.cpu_count() or 1))
        return self.max_jobs or default


def parse(data: Mapping[str, Any], *, where: str, data_dir: Path) -> AgentConfig:
    """From the content of a config file."""
    for key in data:
        if key not in KEYS and key not in WANDB_KEYS:
            near = nearest(str(key), (*KEYS, *WANDB_KEYS))
            hint = f"Did you mean {near!r}?" if near else f"Known keys: {', '.join(KEYS)}."
            raise BadConfigFile(f"{where} has an unknown key {key!r}.", hint=hint)
    jobs = data.get("max_jobs", 0)
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < -1:
        raise BadConfigFile(f"{where}: max_jobs is {jobs!r}.", hint="Write a number; -1 for no limit.")
    defaults = AgentConfig(data_dir=data_dir)
    return AgentConfig(
        data_dir=data_dir,
        url=_text(data, "url", where) or None,
        entity=_text(data, "entity", where) or None,
        queues=_texts(data, "queues", where) or defaults.queues,
        max_jobs=UNLIMITED if jobs == -1 else jobs,
        engine=_engine(data, where) or defaults.engine,
        name=_text(data, "name", where) or defaults.name,
        kubernetes=_cluster(data.get("kubernetes", {}), where),
        env_allow=_texts(data, "env_allow", where),
        passed_over=tuple(key for key in data if key in WANDB_KEYS),
    )


def _cluster(data: Any, where: str) -> ClusterConfig:
    if not isinstance(data, Mapping):
        raise BadConfigFile(f"{where}: kubernetes is {data!r}.", hint="Write it as a mapping.")
    where = f"{where}: kubernetes"
    for key in data:
        if key not in CLUSTER_KEYS:
            near = nearest(str(key), CLUSTER_KEYS)
            hint = f"Did you mean {near!r}?" if near else f"Known keys: {', '.join(CLUSTER_KEYS)}."
            raise BadConfigFile(f"{where} has an unknown key {key!r}.", hint=hint)
    kubeconfig = _text(data, "kubeconfig", where)
    return ClusterConfig(
        kubeconfig=Path(kubeconfig).expanduser() if kubeconfig else None,
        context=_text(data, "context", where) or None,
        namespace=_text(data, "namespace", where) or None,
        namespaces=_texts(data, "namespaces", where),
        cluster=_text(data, "cluster", where) or None,
        kinds=_texts(data, "kinds", where),
        objects=_texts(data, "objects", where),
    )


def _engine(data: Mapping[str, Any], where: str) -> str:
    engine = _text(data, "engine", where)
    if engine and engine not in ENGINES:
        raise BadConfigFile(f"{where}: there is no engine {engine!r}.", hint=f"Use {', '.join(ENGINES)}.")
    return engine


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str):
        raise BadConfigFile(f"{where}: {key} is {value!r}.", hint=f"Write {key} as text.")
    return value


def _texts(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadConfigFile(f"{where}: {key} is {value!r}.", hint=f"Write {key} as a list of names.")
    return tuple(value)
