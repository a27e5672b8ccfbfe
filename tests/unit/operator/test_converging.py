"""Whatever happens to a job and to the operator: reconciling converges, and then has nothing to do."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.operator.reconcile import GRACE
from muster.operator.status import Phase
from unit.operator.world import World, spec_of

POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
CODES = (0, 1, 137, 138)
PLACES = st.integers(0, 20)
THEN = st.sampled_from(
    ("it hears and works", "it is killed while it works", "it works", "it hears", "it sleeps")
)


class Reconciling(RuleBasedStateMachine):
    world: World

    @initialize(
        policies=st.lists(st.sampled_from(POLICIES), min_size=1, max_size=2),
        replicas=st.integers(1, 2),
        limit=st.integers(0, 3),
        clean_up=st.sampled_from(("None", "All", "Unfinished")),
        deadline=st.sampled_from((None, 100)),
        paused=st.sampled_from((False, False, True)),
        volcano=st.booleans(),
        is_new=st.booleans(),
    )
    def begin(
        self,
        policies: list[str],
        replicas: int,
        limit: int,
        clean_up: str,
        deadline: int | None,
        paused: bool,
        volcano: bool,
        is_new: bool,
    ) -> None:
        spec: dict[str, Any] = spec_of(**{f"type{number}": replicas for number, _ in enumerate(policies)})
        for replica, policy in zip(spec["replicaSpecs"], policies, strict=True):
            replica["restartPolicy"] = policy
        spec["runPolicy"] = {"backoffLimit": limit, "cleanUpPolicy": clean_up}
        if deadline is not None:
            spec["runPolicy"]["activeDeadlineSeconds"] = deadline
        spec["runMode"] = {"pause": {"enabled": paused}}
        if volcano:
            spec["scheduler"] = {"volcanoScheduler": {}}
        self.world = World(spec)
        self.ended: Phase | None = None
        self.restarts = 0
        if not is_new:
            self.world.start_all()

    # The operator may sleep, have old lists, or be killed between any two steps

    def _go_on(self, then: str, steps: int = 0) -> None:
        match then:
            case "it sleeps":
                return
            case "it hears":
                self.world.sync()
            case "it works":
                self.world.reconcile()
            case "it hears and works":
                self.world.sync()
                self.world.reconcile()
            case "it is killed while it works":
                self.world.sync()
                self.world.reconcile(steps=steps)
                self.world.restart_operator()

    @rule(then=THEN, steps=st.integers(0, 5))
    def nothing_happens(self, then: str, steps: int) -> None:
        self._go_on(then, steps)

    # The cluster

    def _pick(self, place: int) -> str:
        names = sorted(self.world.pods)
        return names[place % len(names)]

    @precondition(lambda self: self.world.pods)
    @rule(then=THEN)
    def all_pods_start(self, then: str) -> None:
        for name, pod in self.world.pods.items():
            if pod.phase == "Pending":
                self.world.start(name)
        self._go_on(then)

    @precondition(lambda self: self.world.pods)
    @rule(place=PLACES, code=st.sampled_from(CODES), then=THEN)
    def a_pod_ends(self, place: int, code: int, then: str) -> None:
        name = self._pick(place)
        if not self.world.pods[name].over:
            self.world.end(name, code)
        self._go_on(then)

    @precondition(lambda self: self.world.pods)
    @rule(place=PLACES, then=THEN)
    def a_pod_is_evicted(self, place: int, then: str) -> None:
        name = self._pick(place)
        if not self.world.pods[name].over:
            self.world.evict(name)
        self._go_on(then)

    @precondition(lambda self: self.world.pods)
    @rule(place=PLACES, then=THEN)
    def somebody_removes_a_pod(self, place: int, then: str) -> None:
        self.world.remove(self._pick(place))
        self._go_on(then)

    @precondition(lambda self: self.world.cached)
    @rule(place=PLACES, then=THEN)
    def its_list_lacks_a_pod(self, place: int, then: str) -> None:
        uids = sorted(self.world.cached)
        del self.world.cached[uids[place % len(uids)]]
        self._go_on(then)

    @precondition(lambda self: any(pod.deleting for pod in self.world.pods.values()))
    @rule(then=THEN)
    def deleted_pods_go(self, then: str) -> None:
        for name in [name for name, pod in self.world.pods.items() if pod.deleting]:
            self.world.remove(name)
        self._go_on(then)

    @rule(then=THEN)
    def somebody_deletes_the_service(self, then: str) -> None:
        self.world.service = False
        self._go_on(then)

    @rule(then=THEN)
    def somebody_pauses_or_resumes(self, then: str) -> None:
        self.world.pause(not self.world.job.spec.paused)
        self._go_on(then)

    @rule(seconds=st.sampled_from((1, 20, 200)), then=THEN)
    def time_passes(self, seconds: int, then: str) -> None:
        self.world.pass_time(seconds)
        self._go_on(then)

    # What holds all the while

    @invariant()
    def a_place_has_one_pod_that_is_not_over(self) -> None:
        live = Counter((pod.type, pod.index) for pod in self.world.pods.values() if not pod.over)
        assert all(number == 1 for number in live.values()), live

    @invariant()
    def restarts_only_grow_and_stay_below_the_limit(self) -> None:
        count = self.world.status.backoff_count
        assert self.restarts <= count <= self.world.job.spec.backoff_limit
        assert count <= len(self.world.ended), "a pod that lives was taken for gone"
        self.restarts = count

    @invariant()
    def what_has_ended_stays_as_it_ended(self) -> None:
        if self.ended is not None:
            assert self.world.status.phase is self.ended
        if self.world.status.finished:
            self.ended = self.world.status.phase

    def teardown(self) -> None:
        """From here on nothing else happens: it settles, and the next plan is empty."""
        if not hasattr(self, "world"):
            return
        for _ in range(2):
            self.world.settle()
            made = self.world.plan()
            assert not made.actions
            assert made.status == self.world.status
            self.world.restart_operator()
            assert not self.world.plan().actions, "a new operator finds nothing to do either"
            self.world.pass_time(GRACE.total_seconds())
        status = self.world.status
        if status.phase is Phase.PAUSED:
            assert not self.world.pods
        elif not status.finished:
            places = {(pod.type, pod.index) for pod in self.world.pods.values()}
            missing = {(slot.type, slot.index) for slot in self.world.job.spec.slots} - places
            lost = {
                (task.type, index)
                for task in status.tasks
                for index, one in enumerate(task.replicas)
                if one.phase == "Deleted"
            }
            assert missing <= lost, "every place has its pod, or may have none any more"


TestReconciling = Reconciling.TestCase
TestReconciling.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
