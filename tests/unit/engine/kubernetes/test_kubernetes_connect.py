"""Finding the cluster: what cannot be used is named, with what there is instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import BadConfigFile
from muster.engine.kubernetes import connect as module
from muster.engine.kubernetes.connect import ClusterSettings, connect

KUBECONFIG: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [
        {"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
        {"name": "nobody", "context": {"cluster": "c"}},
        {"name": "broken", "context": {"cluster": "gone", "user": "u"}},
    ],
    "current-context": "lab",
}


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path / "none")


def written(folder: Path, content: Any = KUBECONFIG) -> Path:
    path = folder / "kubeconfig"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_current_context_says_which_namespace(tmp_path: Path) -> None:
    found = connect(ClusterSettings(kubeconfig=written(tmp_path), namespaces=("other", "ml", "other")))
    assert (found.server, found.namespace) == ("https://127.0.0.1:1", "ml")
    assert found.namespaces == ("ml", "other")


def test_the_environment_names_a_kubeconfig(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": f"{written(tmp_path)}:/somewhere/else"}
    assert connect(ClusterSettings(), environ).namespace == "ml"


@pytest.mark.parametrize(
    ("content", "context", "said", "hint"),
    [
        (KUBECONFIG, "labb", "has no context 'labb'", "There is: broken, lab, nobody."),
        (KUBECONFIG, "nobody", "names no user", "Choose another"),
        (KUBECONFIG, "broken", "refers to 'gone', which is not there", "Correct the kubeconfig"),
        ({**KUBECONFIG, "current-context": ""}, None, "has no current context", "Choose one"),
        ({**KUBECONFIG, "users": [{"name": "u", "user": 3}]}, None, "is not a kubeconfig", "kubectl config"),
        ("clusters: [", None, "is not a kubeconfig", "kubectl config"),
        ("", None, "is not a kubeconfig", "kubectl config"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_named(
    tmp_path: Path, content: Any, context: str | None, said: str, hint: str
) -> None:
    with pytest.raises(BadConfigFile, match=said) as caught:
        connect(ClusterSettings(kubeconfig=written(tmp_path, content), context=context))
    assert hint in caught.value.hint


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfigFile, match=f"no kubeconfig at {tmp_path / 'nowhere'}"):
        connect(ClusterSettings(), {"KUBECONFIG": str(tmp_path / "nowhere")})


def test_credentials_that_are_not_there_are_named(tmp_path: Path) -> None:
    user = {"client-certificate": "gone.crt", "client-key": "gone.key"}
    content = {**KUBECONFIG, "users": [{"name": "u", "user": user}]}
    with pytest.raises(BadConfigFile, match=r"credentials of context 'lab' cannot be used: .*No such file"):
        connect(ClusterSettings(kubeconfig=written(tmp_path, content)))


def test_half_a_service_account_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(BadConfigFile, match=r"service account .* cannot be used"):
        connect(ClusterSettings())
