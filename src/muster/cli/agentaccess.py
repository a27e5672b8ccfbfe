"""`muster agent role` and `muster agent check`: what an agent must be allowed in a cluster."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from muster.cli.agentconfig import ConfigFile, connect_cluster, read_config
from muster.cli.main import FAILED
from muster.cli.options import Json
from muster.cli.output import show, show_json
from muster.cli.usage import BadUsage

if TYPE_CHECKING:
    from muster.agent.config import ClusterConfig
    from muster.engine.kubernetes.access import Extra, Right
    from muster.engine.kubernetes.connect import Connection
    from muster.engine.kubernetes.review import Verdict

ACCOUNT = "muster-agent"
ROLE_HINT = "`muster agent role` writes all of it; an admin of the cluster applies it."

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Kind of workloads beside Jobs: PyTorchJob, or PLURAL.GROUP such as "
        "pytorchjobs.kubeflow.org. Repeat.",
    ),
]
Objects = Annotated[
    list[str] | None,
    typer.Option(
        "--object",
        metavar="KIND",
        help="Kind that queues create beside the workload, as PLURAL.GROUP. Repeat. Services, ConfigMaps "
        "and Secrets are always among them.",
    ),
]


def role(
    config: ConfigFile = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Where runs go. Repeat; the first is home."),
    ] = None,
    kind: Kinds = None,
    object_: Objects = None,
    with_metrics: Annotated[
        bool, typer.Option("--with-metrics", help="CPU and memory of runs, from the metrics API.")
    ] = False,
    with_nodes: Annotated[
        bool, typer.Option("--with-nodes", help="Which node has room: reads all nodes and pods.")
    ] = False,
    with_volumes: Annotated[
        bool, typer.Option("--with-volumes", help="Offers launches the volume claims there are.")
    ] = False,
    with_kubelet: Annotated[
        bool,
        typer.Option("--with-kubelet", help="Network and disk of runs: nodes/proxy, a far-reaching right."),
    ] = False,
    with_token: Annotated[
        bool, typer.Option("--with-token", help="A token that stays, for an agent outside the cluster.")
    ] = False,
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="Who the agent is in the cluster.")
    ] = ACCOUNT,
    json: Json = False,
) -> None:
    """Print the role that an agent needs in a cluster, to be applied with kubectl.

    Nothing is asked of a cluster: muster agent role -n ml | kubectl apply -f -
    """
    from muster.engine.kubernetes.access import Extra
    from muster.engine.kubernetes.role import manifests

    given = read_config(config).kubernetes
    namespaces = namespace or _namespaces(given)
    if not namespaces:
        raise BadUsage(
            "The namespace is missing.", hint="Name it with -n, or in the file that --config names."
        )
    wanted = {
        Extra.METRICS: with_metrics,
        Extra.NODES: with_nodes,
        Extra.VOLUMES: with_volumes,
        Extra.KUBELET: with_kubelet,
    }
    made = manifests(
        _rights(given, kind, object_, [extra for extra, chosen in wanted.items() if chosen]),
        namespaces=namespaces,
        account=service_account,
        with_token=with_token,
    )
    if json:
        show_json({"apiVersion": "v1", "kind": "List", "items": made})
        return
    from muster.cli.yamlfile import dump

    sys.stdout.write("---\n".join(dump(item) for item in made))


def check(config: ConfigFile = None, kind: Kinds = None, object_: Objects = None, json: Json = False) -> None:
    """Ask the cluster what this agent may do. Exits with 1 if something is missing that it needs."""
    from muster.engine.kubernetes.access import Extra

    settings = read_config(config)
    connection = connect_cluster(settings)
    rights = list(_rights(settings.kubernetes, kind, object_, list(Extra)))
    verdicts = asyncio.run(_ask_and_leave(connection, rights))
    if json:
        show_json({"items": [_as_item(verdict) for verdict in verdicts], "next": None})
    else:
        _show(connection, verdicts)
    if any(verdict.required and not verdict.allowed for verdict in verdicts):
        raise typer.Exit(FAILED)


async def warn_of_missing(connection: Connection, given: ClusterConfig) -> None:
    """In the log, at an agent's start. A cluster that does not answer is the engine's to tell."""
    import structlog  # not above: see `muster._start`

    from muster.domain.errors import MusterError

    log = structlog.get_logger()
    try:
        verdicts = await _ask(connection, list(_rights(given, None, None, [])))
    except MusterError as error:
        log.warning("the cluster does not say what this agent may do", reason=error.detail)
        return
    for verdict in verdicts:
        if not verdict.allowed:
            log.warning(f"this agent may not {verdict.sentence}", means=verdict.means, hint=ROLE_HINT)


async def _ask_and_leave(connection: Connection, rights: list[Right]) -> list[Verdict]:
    async with connection.http:
        return await _ask(connection, rights)


async def _ask(connection: Connection, rights: list[Right]) -> list[Verdict]:
    from muster.domain.errors import ClusterUnreachable
    from muster.engine.kubernetes.api import Api, ApiError, Unreachable
    from muster.engine.kubernetes.review import review

    try:
        return await review(Api(connection), rights, connection.namespaces)
    except Unreachable as error:
        raise ClusterUnreachable(str(error), hint="Check its address in the kubeconfig.") from error
    except ApiError as error:
        raise ClusterUnreachable(
            f"The cluster at {connection.server} does not answer what this agent may do: {error.message}.",
            hint="Make a new token or certificate for the agent." if error.status == 401 else "",
        ) from error


def _rights(
    given: ClusterConfig, kinds: list[str] | None, objects: list[str] | None, extras: list[Extra]
) -> list[Right]:
    from muster.engine.kubernetes.access import JOBS, kind_named, rights

    workloads = [JOBS, *(kind_named(text) for text in kinds or given.kinds)]
    companions = [kind_named(text) for text in objects or given.objects]
    return list(rights(workloads=workloads, companions=companions, extras=extras))


def _namespaces(given: ClusterConfig) -> list[str]:
    return [*dict.fromkeys(name for name in (given.namespace, *given.namespaces) if name)]


def _show(connection: Connection, verdicts: list[Verdict]) -> None:
    show(f"Cluster {connection.server}, namespaces {', '.join(connection.namespaces)}")
    needed = [verdict for verdict in verdicts if verdict.required]
    missing = [verdict for verdict in needed if not verdict.allowed]
    if not missing:
        show(Text("✔ ok    ", style="green"), f"all {len(needed)} rights that runs need")
    for verdict in missing:
        show(Text("✘ fail  ", style="red"), f"may not {verdict.sentence}: {verdict.means}")
    for extra, its_verdicts in _by_extra(verdicts).items():
        off = [verdict for verdict in its_verdicts if not verdict.allowed]
        if off:
            means = "; ".join(dict.fromkeys(verdict.means for verdict in off))
            show(Text("- off   ", style="dim"), f"{extra}: {means} (--with-{extra} adds it to a role)")
        else:
            show(Text("✔ ok    ", style="green"), f"{extra}")
    if missing:
        show(f"{'':8}→ {ROLE_HINT}")


def _by_extra(verdicts: list[Verdict]) -> dict[Extra, list[Verdict]]:
    found: dict[Extra, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.right.extra is not None:
            found.setdefault(verdict.right.extra, []).append(verdict)
    return found


def _as_item(verdict: Verdict) -> dict[str, Any]:
    return {
        "namespace": verdict.namespace,
        "group": verdict.right.kind.group,
        "resource": verdict.right.kind.plural,
        "verb": verdict.verb,
        "required": verdict.required,
        "extra": verdict.right.extra,
        "allowed": verdict.allowed,
        "means": verdict.means,
    }
