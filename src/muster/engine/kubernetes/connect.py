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
from msgspec import MsgspecError
from yaml import YAMLError  # type: ignore[import-untyped]

from muster._version import __version__
from muster.domain.errors import BadConfigFile

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
STREAMS = 4096  #: connections at once: each followed log holds one
AT_ONCE = 32  #: short requests at a time: so many connections are kept, and no handshake is made in vain
KEPT = 45.0  #: seconds that an idle one is kept: half of what API servers do
LIMITS = httpx2.Limits(max_connections=STREAMS, max_keepalive_connections=AT_ONCE, keepalive_expiry=KEPT)
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
    try:
        params = ConnectionParams(timeout=TIMEOUT).httpx_params(config)
        identity = settings.cluster or _identity(config)
    except (ConfigError, OSError, ValueError) as error:  # of TLS too: an SSLError is an OSError
        raise BadConfigFile(
            f"The credentials of context {config.context_name!r} cannot be used: {_words(error)}.",
            hint="Write the kubeconfig anew, or choose another `context:` under `kubernetes:`.",
        ) from error
    http = httpx2.AsyncClient(
        **params,
        limits=LIMITS,
        headers={"User-Agent": f"muster/{__version__}"},
    )
    namespace = settings.namespace or config.namespace
    others = (name for name in settings.namespaces if name != namespace)
    return Connection(
        http=http,
        server=config.cluster.server,
        cluster=identity,
        namespace=namespace,
        namespaces=(namespace, *dict.fromkeys(others)),
    )


def _load(settings: ClusterSettings, environ: Mapping[str, str]) -> SingleConfig:
    if settings.kubeconfig is None and settings.context is None and (SERVICE_ACCOUNT / "token").exists():
        config = _of_pod()
    else:
        # kubectl merges the files of KUBECONFIG; the first is the one that people write to.
        first = environ.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config"
        config = _of_file(Path(settings.kubeconfig or first).expanduser(), settings.context)
    helper = config.user.exec if config.user else None
    if helper is not None and helper.apiVersion == _EXEC_V1:
        # The same exchange as v1beta1, which is the newest that lightkube knows by name.
        helper.apiVersion = f"{_EXEC_V1}beta1"
    return config


def _of_pod() -> SingleConfig:
    try:
        config = KubeConfig.from_service_account(SERVICE_ACCOUNT).get()
    except (ConfigError, KeyError, OSError) as error:
        lacking = f"{_words(error)} is not set" if isinstance(error, KeyError) else _words(error)
        raise BadConfigFile(
            f"The pod's service account in {SERVICE_ACCOUNT} cannot be used: {lacking}.",
            hint="Let the cluster mount it whole, or name a kubeconfig under `kubernetes:`.",
        ) from error
    if config is None:
        raise AssertionError("a service account is a context")
    return config


def _of_file(path: Path, context: str | None) -> SingleConfig:
    if not path.is_file():
        raise BadConfigFile(
            f"There is no kubeconfig at {path}, and this is no pod of a cluster.",
            hint="Name one under `kubernetes:` of the agent's config: `kubeconfig: PATH`.",
        )
    try:
        found = KubeConfig.from_file(path)
    except (OSError, KeyError, TypeError, AttributeError, ValueError, MsgspecError, YAMLError) as error:
        raise BadConfigFile(
            f"{path} is not a kubeconfig: {_words(error)}.", hint="`kubectl config view` shows one."
        ) from error
    known = ", ".join(sorted(found.contexts)) or "none"
    chosen = context or found.current_context
    if not chosen:
        raise BadConfigFile(
            f"{path} has no current context.", hint=f"Choose one with `context:`. There is: {known}."
        )
    if chosen not in found.contexts:
        raise BadConfigFile(f"{path} has no context {chosen!r}.", hint=f"There is: {known}.")
    try:
        config = found.get(chosen)
    except KeyError as error:
        raise BadConfigFile(
            f"Context {chosen!r} of {path} refers to {_words(error)}, which is not there.",
            hint=f"Correct the kubeconfig, or choose another with `context:`. There is: {known}.",
        ) from error
    if config is None or config.user is None:
        raise BadConfigFile(
            f"Context {chosen!r} of {path} names no user.",
            hint=f"Choose another with `context:`. There is: {known}.",
        )
    return config


def _words(error: Exception) -> str:
    """On one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


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
