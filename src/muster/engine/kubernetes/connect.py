"""Finding the cluster and who we are there: a kubeconfig, or the pod's own service account."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from muster._version import __version__
from muster.domain.errors import BadConfigFile

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
STREAMS = 4096  #: connections at once: each followed log holds one
TIMEOUT = httpx2.Timeout(30.0, connect=10.0, pool=60.0)
_EXEC_V1 = "client.authentication.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How an agent is told which cluster it serves."""

    kubeconfig: Path | None = None  #: else the pod's service account, `KUBECONFIG`, `~/.kube/config`
    context: str | None = None
    namespace: str | None = None  #: where runs go that name none; else the context's own
    namespaces: tuple[str, ...] = ()  #: others that templates may name
    cluster: str | None = None  #: a name for it; else told by its certificate authority


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A cluster that can be spoken to."""

    http: httpx2.AsyncClient
    server: str
    cluster: str  #: equal for agents of the same cluster
    namespace: str
    namespaces: tuple[str, ...]  #: all that are served, the default one first


def connect(settings: ClusterSettings, environ: Mapping[str, str] = os.environ) -> Connection:
    """Read what there is and make a client. Nothing is asked of the cluster yet."""
    config = _load(settings, environ)
    params = ConnectionParams(timeout=TIMEOUT).httpx_params(config)
    http = httpx2.AsyncClient(
        **params,
        limits=httpx2.Limits(max_connections=STREAMS, max_keepalive_connections=32),
        headers={"User-Agent": f"muster/{__version__}"},
    )
    namespace = settings.namespace or config.namespace
    others = (name for name in settings.namespaces if name != namespace)
    return Connection(
        http=http,
        server=config.cluster.server,
        cluster=settings.cluster or _identity(config),
        namespace=namespace,
        namespaces=(namespace, *dict.fromkeys(others)),
    )


def _load(settings: ClusterSettings, environ: Mapping[str, str]) -> SingleConfig:
    try:
        if settings.kubeconfig is None and settings.context is None and (SERVICE_ACCOUNT / "token").exists():
            found = KubeConfig.from_service_account(SERVICE_ACCOUNT)
        else:
            # kubectl merges the files of KUBECONFIG; the first is the one that people write to.
            first = environ.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config"
            found = KubeConfig.from_file(settings.kubeconfig or first)
        config = found.get(settings.context)
    except (ConfigError, KeyError, TypeError, OSError) as error:
        raise BadConfigFile(
            f"No way to a cluster was found: {error}.",
            hint="Name a kubeconfig and a context in the agent's config, under `kubernetes:`.",
        ) from error
    if config is None or config.user is None:
        raise BadConfigFile("The kubeconfig names no user.", hint="Choose another with `context:`.")
    if config.user.exec is not None and config.user.exec.apiVersion == _EXEC_V1:
        # The same exchange as v1beta1, which is the newest that lightkube knows by name.
        config.user.exec.apiVersion = f"{_EXEC_V1}beta1"
    return config


def _identity(config: SingleConfig) -> str:
    """The certificate authority's digest: a cluster has one, wherever it is looked at from."""
    cluster = config.cluster
    if cluster.certificate_auth_data:
        authority = base64.b64decode(cluster.certificate_auth_data)
    elif cluster.certificate_auth:
        authority = Path(config.abs_file(cluster.certificate_auth)).read_bytes()
    else:
        authority = cluster.server.encode()
    return hashlib.sha256(authority.strip()).hexdigest()[:16]
