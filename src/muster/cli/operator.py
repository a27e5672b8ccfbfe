"""`muster operator`: the controller for PyTorchTrainingJobs, and what a cluster needs for it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from muster._start import begin, settle
from muster.cli.options import Json
from muster.cli.output import say, show_json
from muster.domain.errors import BadConfigFile

app = typer.Typer(help="Give a cluster the PyTorchTrainingJob resource.", no_args_is_help=True)
HOME = "muster"

Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace to serve. Repeat. Default: all."),
]
Home = Annotated[str, typer.Option("--home", metavar="NAMESPACE", help="Namespace of the operator itself.")]


@app.command("run")
def run(
    namespace: Namespaces = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: the pod's own account, or KUBECONFIG.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more in the log.")] = False,
) -> None:
    """Serve PyTorchTrainingJobs until Ctrl-C; what it started goes on, and is found again."""
    begin()
    asyncio.run(_run(namespace or [], kubeconfig, context, verbose=verbose))


async def _run(
    namespaces: Sequence[str], kubeconfig: Path | None, context: str | None, *, verbose: bool
) -> None:
    from muster.logging import configure_logging

    try:
        from muster.engine.kubernetes.api import Api
        from muster.engine.kubernetes.connect import ClusterSettings, connect
        from muster.operator.runner import Operator
    except ModuleNotFoundError as error:
        raise BadConfigFile(
            f"The operator needs {error.name}, which is not installed.",
            hint="Install it: pip install 'muster-ml[kubernetes]'",
        ) from error
    configure_logging(verbose=verbose)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    connection = connect(ClusterSettings(kubeconfig=kubeconfig, context=context))
    where = ", ".join(namespaces) or "all namespaces"

    def ready() -> None:
        settle()
        say(f"The operator serves PyTorchTrainingJobs in {where} at {connection.server}")

    api = Api(connection)
    try:
        await Operator(api, namespaces).run(stop, ready)
    finally:
        await api.close()


@app.command("crd")
def crd(json: Json = False) -> None:
    """Print the resource's definition: muster operator crd | kubectl apply --server-side -f -"""
    from muster.operator import manifest

    if json:
        show_json(manifest.crd())
    else:
        sys.stdout.write(manifest.crd_text())


@app.command("role")
def role(namespace: Namespaces = None, home: Home = HOME, json: Json = False) -> None:
    """Print the account of an operator and exactly the rights it needs, to be applied with kubectl."""
    from muster.operator import manifest

    _show(manifest.role(home=home, namespaces=namespace or []), json=json)


@app.command("manifest")
def whole(
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Image that has muster in it.")],
    namespace: Namespaces = None,
    home: Home = HOME,
    json: Json = False,
) -> None:
    """Print all that runs it in a cluster: definition, account, rights and a Deployment."""
    from muster.operator import manifest

    namespaces = namespace or []
    made = [
        manifest.crd(),
        *manifest.role(home=home, namespaces=namespaces),
        manifest.deployment(home=home, namespaces=namespaces, image=image),
    ]
    _show(made, json=json)


def _show(made: Sequence[dict[str, Any]], *, json: bool) -> None:
    if json:
        show_json({"apiVersion": "v1", "kind": "List", "items": list(made)})
        return
    from muster.cli.yamlfile import dump

    sys.stdout.write("---\n".join(dump(item) for item in made))
