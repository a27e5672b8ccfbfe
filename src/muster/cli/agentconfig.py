"""The `agent.yaml` that a command of `muster agent` is given, and the cluster it names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.client.settings import data_dir as default_data_dir
from muster.domain.errors import BadConfigFile

if TYPE_CHECKING:
    from muster.agent.config import AgentConfig
    from muster.engine.kubernetes.connect import Connection

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="An agent.yaml.")]


def read_config(path: Path | None, data_dir: Path | None = None) -> AgentConfig:
    from muster.agent.config import parse
    from muster.cli.yamlfile import read_mapping

    given = read_mapping(path) if path is not None else {}
    base = data_dir or given.get("data_dir") or default_data_dir(os.environ)
    return parse(given, where=str(path), data_dir=Path(base).expanduser().absolute() / "agent")


def connect_cluster(settings: AgentConfig) -> Connection:
    """Nothing is asked of it yet."""
    try:
        from muster.engine.kubernetes.connect import ClusterSettings, connect
    except ModuleNotFoundError as error:
        raise BadConfigFile(
            f"The kubernetes engine needs {error.name}, which is not installed.",
            hint="Install it: pip install 'muster-ml[kubernetes]'",
        ) from error
    given = settings.kubernetes
    return connect(
        ClusterSettings(
            kubeconfig=given.kubeconfig,
            context=given.context,
            namespace=given.namespace,
            namespaces=given.namespaces,
            cluster=given.cluster,
        )
    )
