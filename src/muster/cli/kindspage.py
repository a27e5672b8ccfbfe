"""The page about the kinds of workload, made from the code that runs them.

python -m muster.cli.kindspage docs/reference/kinds.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from muster.cli.yamlfile import dump
from muster.domain.observation import AttemptKey
from muster.domain.training import Training
from muster.engine.kubernetes.kinds import KINDS, Kind
from muster.engine.kubernetes.kinds.kind import MUSTER, NATIVE, NOT, Feature
from muster.engine.kubernetes.render import render
from muster.engine.port import Work

_INTRO = (
    "# Kinds of workload\n\n"
    "What Muster knows about each kind of object that can be a run in a cluster. This page is made from the "
    "code by `python -m muster.cli.kindspage docs/reference/kinds.md`. [Training](../training.md) says how "
    "to use them; of a kind that is not here, see [other kinds](../training.md#other-kinds).\n\n"
    "## What each can do\n\n"
    f"**{NATIVE}**: its controller does it, and a queue's template may ask for it. "
    f"**{MUSTER}**: Muster does it, on any cluster. **{NOT}**: not possible.\n\n"
)
_ABOUT = (
    "Two nodes with two GPUs each, as Muster writes them. Left out here: labels, security, volumes, and what "
    "else every container is told."
)
_NODE = {
    "spec": {"containers": [{"resources": {"limits": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": 2}}}]}
}
_BORING = ("securityContext", "labels", "terminationMessagePolicy", "volumes", "volumeMounts")


def page() -> str:
    written = [kind for kind in KINDS.values() if kind.features]
    written = [kind for kind in written if kind.form is not None or kind.name == "Pod"]
    return _INTRO + "\n".join([*_table(written), "", *(line for kind in written for line in _section(kind))])


def title(kind: Kind) -> str:
    return f"Volcano {kind.name}" if kind.group == "batch.volcano.sh" else kind.name


def _table(kinds: list[Kind]) -> Iterator[str]:
    yield "|  | " + " | ".join(map(title, kinds)) + " |"
    yield "| --- |" + " --- |" * len(kinds)
    for feature in Feature:
        yield f"| {feature.value} | " + " | ".join(kind.features[feature] for kind in kinds) + " |"
    names = ["yes" if kind.form else NOT for kind in kinds]
    yield "| Muster writes it from a `training:` block | " + " | ".join(names) + " |"


def _section(kind: Kind) -> Iterator[str]:
    yield f"## {title(kind)}"
    yield ""
    yield f"`{kind.plural}{'.' + kind.group if kind.group else ''}`, `apiVersion: {kind.api_version}`"
    yield ""
    for trap in kind.traps:
        yield f"- {trap}"
    yield ""
    if kind.form is not None:
        yield _ABOUT
        yield ""
        yield "```yaml"
        yield dump(_brief(_example(kind))).rstrip("\n")
        yield "```"
        yield ""


def _example(kind: Kind) -> Any:
    work = Work(
        key=AttemptKey(run_id="r7k2m9", attempt=1),
        run_name="train",
        project="vision",
        entity="team",
        queue="gpus",
        author="ann",
        image="acme/train:main",
        config={"apiVersion": kind.api_version, "kind": kind.name, "template": _NODE},
        command=("train.py",),
        training=Training(nodes=2, procs_per_node="gpu"),
    )
    manifest: Any = render(work).manifest
    return manifest["items"][0]


def _brief(node: Any) -> Any:
    """Without what is the same for all kinds."""
    if isinstance(node, list):
        return [_brief(child) for child in node]
    if not isinstance(node, Mapping):
        return node
    brief = {key: _brief(child) for key, child in node.items() if key not in _BORING}
    if "annotations" in brief:
        brief["annotations"] = {
            name: text
            for name, text in brief["annotations"].items()
            if name in ("muster.dev/gang", "muster.dev/first-rank")
        }
        if not brief["annotations"]:
            del brief["annotations"]
    if isinstance(brief.get("env"), list):
        told = ("NODE_RANK", "NNODES", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")
        brief["env"] = [item for item in brief["env"] if item["name"] in told]
    return {key: child for key, child in brief.items() if key != "metadata" or child}


def main(args: list[str]) -> int:
    if len(args) != 1:
        print("Usage: python -m muster.cli.kindspage FILE", file=sys.stderr)
        return 2
    target = Path(args[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
