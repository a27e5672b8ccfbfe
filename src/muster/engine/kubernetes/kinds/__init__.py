"""The kinds of workload that Muster knows. A further one is a file of this package and a row here."""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.kubernetes.course import OPEN, Course, by_conditions
from muster.engine.kubernetes.kinds.job import JOB
from muster.engine.kubernetes.kinds.jobset import JOBSET
from muster.engine.kubernetes.kinds.kind import Kind
from muster.engine.kubernetes.kinds.pod import POD
from muster.engine.kubernetes.kinds.pytorchjob import PYTORCHJOB, kubeflow
from muster.engine.kubernetes.kinds.trainingjob import TRAININGJOB
from muster.engine.kubernetes.kinds.unknown import UNKNOWN
from muster.engine.kubernetes.kinds.volcano import VOLCANO

__all__ = ["KINDS", "OPEN", "UNKNOWN", "Kind", "kind_of"]

#: Its pods are described elsewhere, in a runtime of the cluster.
TRAINJOB = Kind(
    name="TrainJob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="trainjobs",
    read=by_conditions({"Complete": Course.SUCCEEDED, "Failed": Course.FAILED}),
    suspend=("spec", "suspend"),
    has_pods=False,
    is_foreign=True,
)

#: by API group and kind
KINDS: Mapping[tuple[str, str], Kind] = {
    (kind.group, kind.name): kind
    for kind in (
        JOB,
        POD,
        JOBSET,
        VOLCANO,
        PYTORCHJOB,
        TRAININGJOB,
        TRAINJOB,
        *(kubeflow(name) for name in ("JAXJob", "MPIJob", "PaddleJob", "TFJob", "XGBoostJob")),
    )
}


def kind_of(api_version: str, name: str) -> Kind:
    group = api_version.rpartition("/")[0]
    return KINDS.get((group, name), UNKNOWN)
