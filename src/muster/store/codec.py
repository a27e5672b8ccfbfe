"""Domain values to the plain data of JSON columns, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from muster.domain.inputs import names_from_data, names_to_data
from muster.domain.observation import End, EndSeen, Failure, Replica, ReplicaState
from muster.domain.policy import Security
from muster.domain.relaunch import Change
from muster.domain.resources import Resources
from muster.domain.run import AttemptEnd, Retry, RunSpec
from muster.domain.source import GitSource
from muster.domain.training import Launcher, Training
from muster.domain.volume import Volume

Data = Mapping[str, Any]


def compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def spec_to_data(spec: RunSpec) -> dict[str, Any]:
    return {
        "command": list(spec.command),
        "env": dict(spec.env),
        "inputs": dict(spec.inputs),
        **({"input_arguments": list(spec.input_arguments)} if spec.input_arguments else {}),
        **({"managed_files": names_to_data(spec.managed_files)} if spec.managed_files else {}),
        "training": asdict(spec.training) if spec.training else None,
        "retry": {"max": spec.retry.max, "on": sorted(spec.retry.on)},
        "snapshot": spec.snapshot,
        "image": spec.image,
        **({"git": asdict(spec.git)} if spec.git else {}),
        **({"rerun_of": spec.rerun_of} if spec.rerun_of else {}),
        **({"changed": [asdict(change) for change in spec.changed]} if spec.changed else {}),
        **({"overrides": dict(spec.overrides)} if spec.overrides else {}),
        **({"workdir": spec.workdir} if spec.workdir is not None else {}),
        **({"volumes": [str(volume) for volume in spec.volumes]} if spec.volumes else {}),
        "values": dict(spec.values),
        "config": spec.config,
        "resources": dict(spec.resources.__dict__),
        **({"security": spec.security.value} if spec.security is not Security.BASELINE else {}),
    }


def spec_from_data(data: Data) -> RunSpec:
    return RunSpec(
        command=tuple(data["command"]),
        env=data["env"],
        inputs=data["inputs"],
        input_arguments=tuple(data.get("input_arguments", ())),
        managed_files=names_from_data(data.get("managed_files", {})),
        training=training_from_data(data["training"]) if data["training"] else None,
        retry=Retry(max=data["retry"]["max"], on=frozenset(AttemptEnd(end) for end in data["retry"]["on"])),
        snapshot=data["snapshot"],
        image=data["image"],
        git=GitSource(**data["git"]) if data.get("git") else None,
        rerun_of=data.get("rerun_of"),
        changed=tuple(Change(**change) for change in data.get("changed", ())),
        overrides=data.get("overrides", {}),
        workdir=data.get("workdir"),
        volumes=tuple(Volume.parse(text) for text in data.get("volumes", ())),
        values=data["values"],
        config=data["config"],
        resources=Resources(**data["resources"]),
        security=Security(data.get("security", Security.BASELINE)),
    )


def training_from_data(data: Data) -> Training:
    return Training(**{**data, "launcher": Launcher(data["launcher"])})


def replica_to_data(replica: Replica) -> dict[str, Any]:
    return {
        **replica.__dict__,
        "devices": list(replica.devices),
        "started_at": replica.started_at.isoformat() if replica.started_at else None,
        "ended_at": replica.ended_at.isoformat() if replica.ended_at else None,
    }


def replica_from_data(data: Data) -> Replica:
    return Replica(
        **{
            **data,
            "state": ReplicaState(data["state"]),
            "devices": tuple(data["devices"]),
            "started_at": _moment(data["started_at"]),
            "ended_at": _moment(data["ended_at"]),
        }
    )


def failure_to_data(failure: Failure | None) -> dict[str, Any] | None:
    return asdict(failure) if failure else None


def failure_from_data(data: Data | None) -> Failure | None:
    return Failure(**data) if data else None


def end_to_data(seen: EndSeen | None) -> dict[str, Any] | None:
    return asdict(seen) if seen else None


def end_from_data(data: Data | None) -> EndSeen | None:
    return EndSeen(end=End(data["end"]), reason=data["reason"]) if data else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
