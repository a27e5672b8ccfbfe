"""The kinds of workload that Muster writes itself. A further one is a file and a row here."""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.kubernetes.gang import Kind
from muster.engine.kubernetes.indexedjob import JOB

#: by API group and kind
KINDS: Mapping[tuple[str, str], Kind] = {("batch", "Job"): JOB}
