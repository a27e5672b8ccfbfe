"""What a failed attempt is called, from recorded logs. `logs/README.md` says where they come from."""

from __future__ import annotations

import string
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM, SIGUSR1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.failure import EndedMember, advice_for, classify, named, title_of
from muster.domain.failures.classes import CLASSES
from muster.domain.failures.log import MAX_CHARS
from muster.domain.failures.packages import package_of
from muster.domain.failures.sign import Sign
from muster.domain.observation import Failure, Replica, ReplicaState

LOGS = Path(__file__).parent / "logs"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text("utf-8")


def member(
    text: str = "",
    *,
    rank: int = 0,
    state: ReplicaState = ReplicaState.FAILED,
    exit_code: int | None = 1,
    signal: int | None = None,
    reason: str = "",
    seconds: float = 0,
    error_file: str = "",
) -> EndedMember:
    ended_at = NOON + timedelta(seconds=seconds)
    replica = Replica(
        rank=rank, state=state, exit_code=exit_code, signal=signal, reason=reason, ended_at=ended_at
    )
    return EndedMember(replica=replica, log_tail=text, error_file=error_file)


@dataclass(frozen=True)
class Case:
    """A member with this log and this end, alone in its attempt, and what it is called."""

    log: str
    kind: str
    says: str
    rank: int = 0
    ended: int = 1  #: the member's own exit code
    exit_code: int | None = 1
    signal: int | None = None


CASES = (
    # One process.
    Case("gpu_out_of_memory", "gpu_out_of_memory", "2.00 GiB where 1.18 GiB of 23.64 GiB", rank=3),
    Case("gpu_out_of_memory_old", "gpu_out_of_memory", "tried to allocate 512.00 MiB."),
    Case("memory_error", "out_of_memory", "an allocation was refused"),
    Case("numpy_memory_error", "out_of_memory", "an allocation was refused"),
    Case("cpu_allocator", "out_of_memory", "an allocation was refused"),
    Case("bad_alloc", "out_of_memory", "an allocation was refused", ended=134, exit_code=134, signal=SIGABRT),
    Case("data_loader_killed", "out_of_memory", "lost a DataLoader worker to SIGKILL, probably"),
    Case("slurm_oom", "out_of_memory", "more than the Slurm job may use", ended=-9, exit_code=None, signal=9),
    Case("data_loader_bus_error", "shared_memory", "ran out of shared memory"),
    Case("shm_file", "shared_memory", "ran out of shared memory"),
    Case("disk_full", "disk_full", "no space left"),
    Case("store_timeout", "rendezvous_timeout", "1 of 2 joined"),
    Case("nccl_watchdog", "nccl", "ALLREDUCE", ended=-6, exit_code=None, signal=SIGABRT),
    Case("nccl_error", "nccl", "SystemError: System call (e.g. socket", rank=2),
    Case("cuda_assert", "cuda_error", "a CUDA error: device-side assert triggered."),
    Case("cuda_driver", "cuda_error", "the driver is too old"),
    Case("no_script", "script_not_found", "the script /app/nope.py is not there", ended=2, exit_code=2),
    Case("no_torch", "missing_dependency", "cannot import torch: it is not installed"),
    Case("no_main_module", "missing_dependency", "cannot run nosuch: it is not installed"),
    Case("no_system_library", "missing_library", "the system library libcudart.so.11.0"),
    Case("dash_not_found", "command_not_found", "the command trian is not found", ended=127, exit_code=127),
    Case("bash_not_found", "command_not_found", "the command trian is not found", ended=127, exit_code=127),
    Case("env_not_found", "command_not_found", "command nosuchprog is not", ended=127, exit_code=127),
    Case("dash_exec_not_found", "command_not_found", "command ./nosuch is not", ended=127, exit_code=127),
    Case("not_executable", "command_not_found", "./exit3.py is not executable", ended=126, exit_code=126),
    Case("permission", "permission", "may not use /etc/shadow"),
    Case("raised_from", "user_exception", "raised RuntimeError: cannot read config.json (chained.py:6)."),
    Case("raised_while_handling", "user_exception", "raised ValueError: loss is nan (context.py:2)."),
    Case("error_in_finaliser", "user_exception", "raised ValueError: loss is nan (ignored.py:6)."),
    Case("data_loader_raises", "user_exception", "raised ValueError: image 0 is broken (dlorig.py:8)."),
    Case("syntax_error", "user_exception", "raised SyntaxError: invalid syntax (syntax.py:2)."),
    Case("fault_handler", "crash", "native code (SIGSEGV)", ended=139, exit_code=139, signal=SIGSEGV),
    Case(
        "gloo_abort_at_exit",
        "aborted_at_exit",
        "was aborted while it ended",
        ended=-6,
        exit_code=None,
        signal=SIGABRT,
    ),
    # torchrun exits with 1 whatever happened; its table and the lines of the ranks know better.
    Case("torchrun_raise", "user_exception", "Rank 1 raised ValueError: bad learning rate 5.0", rank=1),
    Case(
        "torchrun_gloo_abort_after_raise",
        "user_exception",
        "Rank 0 raised ValueError: bad sum 4.0 (reduce.py:11)",
        exit_code=None,
        signal=SIGABRT,
    ),
    Case("torchrun_chained", "user_exception", "Rank 0 raised RuntimeError: cannot read config.json"),
    Case("torchrun_record", "user_exception", "raised ValueError: bad learning rate (record.py:6)", rank=1),
    Case("torchrun_peer_dies_second", "user_exception", "raised KeyError: 'tokens' (bothraise.py:5)", rank=1),
    Case(
        "torchrun_root_cause_is_an_echo",
        "user_exception",
        "raised KeyError: 'tokens' (both2.py:5)",
        rank=1,
        exit_code=None,
    ),
    Case("torchrun_exit_3", "nonzero_exit", "code 3; the last line printed: no data", rank=1, exit_code=3),
    Case("torchrun_restarted_and_tagged", "nonzero_exit", "printed: no data", rank=1, exit_code=3),
    Case("torchrun_sigkill", "out_of_memory", "probably", rank=1, exit_code=None, signal=SIGKILL),
    Case("torchrun_sigsegv", "crash", "(SIGSEGV)", rank=1, exit_code=None, signal=SIGSEGV),
    Case("torchrun_no_module", "missing_dependency", "import cv2: it is not installed; add opencv-python to"),
    Case("torchrun_no_script", "script_not_found", "the script /app/nope.py is not there", exit_code=2),
    Case("torchrun_bus_error", "shared_memory", "Rank 0 ran out of shared memory"),
    Case("torchrun_no_gpu", "no_gpu", "Found no NVIDIA driver", rank=1),
    Case("torchrun_gloo_timeout", "peer_lost", "lost the connection to another rank"),
    Case("torchrun_rendezvous_timeout", "rendezvous_timeout", "waited too long for the other members"),
    Case("torchrun_no_rank_0", "rendezvous_timeout", "could not reach rank 0 at localhost:29518 in time"),
    Case("torchrun_no_such_host", "rendezvous_timeout", "rank 0 at nosuchhost.invalid:29581 in time"),
    Case("torchrun_port_in_use", "port_in_use", "port 29530: another program has it"),
    Case("torchrun_port_in_use_c10d", "port_in_use", "port 29530: another program has it"),
    # Muster's own launcher.
    Case("plain_launcher", "user_exception", "Rank 3 raised ValueError: bad learning rate", rank=3),
    Case("plain_launcher_killed", "out_of_memory", "Rank 2 was", rank=2, exit_code=137, signal=SIGKILL),
    # Both of a pair, each as if it were alone; together they are a test of their own.
    Case("two_nodes_first", "user_exception", "Rank 1 raised ValueError: bad learning rate 5.0", rank=1),
    Case("two_nodes_second", "peer_lost", "the member that keeps the rendezvous"),
    Case("torchrun_two_nodes_heard", "peer_lost", "Rank 0 lost the connection to another rank"),
    Case("torchrun_two_nodes_raised", "user_exception", "Rank 3 raised ValueError: no such", rank=3),
    Case("torchrun_told_to_stop", "killed", "was told to end from outside"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.log)
def test_a_recorded_log_is_called_what_it_is(case: Case) -> None:
    failure = classify([member(log(case.log), exit_code=case.ended)])

    assert (failure.kind, failure.rank) == (case.kind, case.rank)
    assert (failure.exit_code, failure.signal) == (case.exit_code, case.signal)
    assert case.says in failure.summary
    assert failure.advice == advice_for(case.kind) != ""
    assert failure.evidence


@pytest.mark.parametrize(
    ("ended", "kind", "says"),
    [
        (member(exit_code=137, reason="OOMKilled"), "out_of_memory", "needed more than the run may use"),
        (member(exit_code=137), "out_of_memory", "probably"),
        (member(exit_code=None, signal=SIGBUS), "shared_memory", "SIGBUS"),
        (member(exit_code=None, signal=SIGTERM), "killed", "SIGTERM"),
        (member(exit_code=None, signal=SIGUSR1), "killed", "SIGUSR1"),
        (member(exit_code=None, signal=50), "killed", "signal 50"),
        (member(exit_code=127), "command_not_found", "not found"),
        (member(exit_code=3), "nonzero_exit", "exited with code 3 and printed nothing."),
        (member(exit_code=255), "nonzero_exit", "exited with code 255"),
        (member(exit_code=None, reason="Evicted: low on disk."), "unknown", "failed: Evicted: low on disk."),
        (member(exit_code=None), "unknown", "left no reason"),
        (member("muster: torchrun is not installed", exit_code=127), "missing_dependency", "needs torch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_end_with_no_traceback_is_called_by_code_signal_and_reason(
    ended: EndedMember, kind: str, says: str
) -> None:
    failure = classify([ended])

    assert failure.kind == kind
    assert says in failure.summary


@dataclass(frozen=True)
class Said:
    """What an engine said of a member, and what that is called."""

    reason: str
    kind: str
    says: str
    signal: int | None = SIGKILL  #: with which the cluster ended it: alone it would look like want of memory


#: As a cluster says it: recorded from one.
SAID_BY_A_CLUSTER = (
    Said(
        "Job muster-r1-1 was deleted from outside Muster.",
        "deleted_outside",
        "was ended because Job muster-r1-1 was deleted from outside Muster.",
    ),
    Said("Its pod was deleted from outside Muster.", "deleted_outside", "because its pod was deleted"),
    Said(
        "DeadlineExceeded: Job was active longer than specified deadline",
        "deadline",
        "ran longer than its queue allows",
    ),
    Said(
        "DeadlineExceeded: Pod was active on the node longer than the specified deadline",
        "deadline",
        "ran longer than its queue allows",
    ),
    Said(
        "Node node-1 of pod muster-r1-1-x2x4z does not answer: Taint manager: deleting due to NoExecute",
        "node_lost",
        "The program was lost: node node-1 does not answer.",
    ),
    Said(
        "Pod muster-r1-1-x2x4z was taken away (EvictionByEvictionAPI): Eviction API: evicting",
        "evicted",
        "was taken away by the cluster (EvictionByEvictionAPI): Eviction API: evicting.",
    ),
    Said(
        "Pod muster-r1-1-x2x4z was taken away (Evicted): The node was low on resource: memory.",
        "evicted",
        "(Evicted): The node was low on resource: memory.",
    ),
    Said(
        'ErrImagePull: failed to pull and unpack image "example.test/train:1": failed to resolve reference '
        '"example.test/train:1": example.test/train:1: not found',
        "image_pull",
        "its image could not be had: example.test/train:1: not found.",
    ),
    Said(
        'ImagePullBackOff: Back-off pulling image "example.test/train:1": ErrImagePull: failed to pull and '
        'unpack image "example.test/train:1": failed to resolve reference "example.test/train:1": failed to '
        'do request: Head "https://example.test/v2/train/manifests/1": dial tcp 192.0.2.1:443: connect: '
        "connection refused",
        "image_pull",
        "dial tcp 192.0.2.1:443: connect: connection refused.",
    ),
    Said("ImagePullBackOff", "image_pull", "its image could not be had."),
    Said(
        'InvalidImageName: Failed to apply default image tag "UPPER": repository name must be lowercase',
        "image_pull",
        "repository name must be lowercase.",
    ),
    Said(
        "init container 'fetch' ended with exit code 4",
        "init_failed",
        "could not start: init container fetch ended with exit code 4 and printed nothing.",
        signal=None,
    ),
    Said("OOMKilled; init container 'fetch' ended with exit code 137", "out_of_memory", "ran out of memory"),
    Said(
        "StartError: failed to create containerd task: OCI runtime create failed: runc create failed: unable "
        'to start container process: exec: "/nope": stat /nope: no such file or directory: unknown',
        "cannot_start",
        "could not start: the command /nope is not in the image.",
    ),
    Said(
        'StartError: failed to create shim task: exec: "trian": executable file not found in $PATH: unknown',
        "cannot_start",
        "could not start: the command trian is not in the image.",
    ),
    Said('StartError: exec: "/etc/hosts": permission denied', "cannot_start", "/etc/hosts is not executable"),
    Said(
        'CreateContainerConfigError: secret "nope" not found',
        "cannot_start",
        'could not start: secret "nope" not found.',
    ),
    Said(
        'Pod muster-r1-1-x2x4z: FailedMount: MountVolume.SetUp failed for volume "v" : configmap "nope" not '
        "found",
        "cannot_start",
        'volume "v" : configmap "nope" not found (FailedMount).',
    ),
    Said(
        'violates PodSecurity "restricted:latest": runAsNonRoot != true',
        "admission_refused",
        "enforces the Pod Security Standard restricted:latest: runAsNonRoot != true.",
    ),
    Said(
        'admission webhook "images.example.test" denied the request: not from our registry',
        "admission_refused",
        "the admission webhook images.example.test refuses it: not from our registry.",
    ),
    Said(
        "forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi",
        "admission_refused",
        "the cluster refuses its pods: maximum memory usage",
    ),
)


@pytest.mark.parametrize("case", SAID_BY_A_CLUSTER, ids=lambda case: case.reason[:50])
def test_what_a_cluster_says_is_called_what_it_is(case: Said) -> None:
    failure = classify([member(exit_code=None, signal=case.signal, reason=case.reason)])

    assert failure.kind == case.kind
    assert case.says in failure.summary
    assert failure.evidence.startswith(case.reason)
    assert failure.advice == advice_for(case.kind) != ""


def test_words_that_name_no_kind_are_left_to_who_knows_more() -> None:
    assert named("") is None
    assert named("its host went away") is None


@pytest.mark.parametrize("case", SAID_BY_A_CLUSTER, ids=lambda case: case.reason[:50])
def test_the_words_alone_are_enough(case: Said) -> None:
    failure = named(case.reason)

    assert failure is not None
    assert (failure.kind, failure.evidence) == (case.kind, case.reason)


def test_every_class_has_a_log_and_every_log_a_case() -> None:
    found_by_log = {case.kind for case in CASES}
    needs_no_log = {"killed", "unknown", "environment_failed", "checkout_failed", "could_not_start", "lost"}
    needs_no_log |= {"preempted"} | {case.kind for case in SAID_BY_A_CLUSTER}
    assert found_by_log | needs_no_log == {row.kind for row in CLASSES}
    assert {case.log for case in CASES} == {path.stem for path in LOGS.glob("*.txt")}


@pytest.mark.parametrize(
    "sign", [sign for row in CLASSES for sign in row.signs], ids=lambda sign: sign.says[:40]
)
def test_a_sentence_uses_only_what_its_sign_has_found(sign: Sign) -> None:
    known = {"last"}
    for pattern in (sign.words, sign.reason):
        known |= set(pattern.groupindex) if pattern else set()
    known |= {"exit_code"} if sign.exits else set()
    known |= {"signal"} if sign.signals else set()
    known |= {"error", "at"} if sign.raised else set()
    known |= {"package"} if "module" in known else set()

    assert {field for _, field, _, _ in string.Formatter().parse(sign.says) if field} <= known


def test_an_unknown_kind_has_a_title_and_no_advice() -> None:
    assert title_of("gpu_out_of_memory") == "Out of GPU memory"
    assert title_of("from_the_future") == "from the future"
    assert advice_for("from_the_future") == ""


# Which member


def test_the_rank_that_raised_is_the_cause_and_not_the_node_that_lost_its_rendezvous() -> None:
    first = member(log("two_nodes_first"), rank=0, seconds=1)
    second = member(log("two_nodes_second"), rank=1, seconds=0)

    failure = classify([first, second])

    assert failure.summary == "Rank 1 (replica 0) raised ValueError: bad learning rate 5.0 (raise.py:6)."
    assert failure.evidence.startswith("Traceback (most recent call last):\n  File ")


def test_of_two_that_raised_the_earlier_is_the_cause() -> None:
    early = member("Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'a'", rank=1)
    late = member("Traceback (most recent call last):\n  File \"b.py\", line 1\nKeyError: 'b'", seconds=9)

    assert classify([late, early]).summary == "Replica 1 raised KeyError: 'a' (a.py:1)."


def test_a_member_stopped_because_of_another_is_no_cause() -> None:
    stopped = member(log("raised_from"), rank=0, state=ReplicaState.STOPPED, exit_code=143)
    failed = member(rank=1, exit_code=3, seconds=5)

    assert (classify([stopped, failed]).kind, classify([stopped, failed]).rank) == ("nonzero_exit", 1)


def test_who_raised_is_the_cause_though_another_ended_of_it_before() -> None:
    """Ten milliseconds between the two: the engine counts the later as stopped because of the earlier."""
    heard = member(log("torchrun_two_nodes_heard"), rank=0)
    raised = member(log("torchrun_two_nodes_raised"), rank=1, state=ReplicaState.STOPPED, seconds=0.1)

    failure = classify([heard, raised])

    assert (failure.kind, failure.rank) == ("user_exception", 3)
    assert failure.summary == "Rank 3 (replica 1) raised ValueError: no such learning rate (train.py:4)."
    assert classify([heard]).kind == "peer_lost"


def test_what_a_member_does_as_it_is_stopped_is_no_cause() -> None:
    heard = member(log("torchrun_two_nodes_heard"), rank=0)
    for said in ("torchrun_told_to_stop", "raised_from"):
        stopped = member(log(said), rank=1, state=ReplicaState.STOPPED)
        assert classify([heard, stopped]).kind == "peer_lost"


def test_a_lost_member_is_asked_only_if_none_failed() -> None:
    lost = member(log("memory_error"), rank=0, state=ReplicaState.LOST, exit_code=None)

    assert classify([lost]).kind == "out_of_memory"
    assert classify([lost, member(rank=1, exit_code=3)]).kind == "nonzero_exit"


def test_nothing_at_all_is_a_failure_without_a_reason() -> None:
    assert classify([]).kind == "unknown"


# Which traceback


def test_the_error_file_is_surer_than_lines_that_name_no_rank() -> None:
    recorded = (LOGS / "torchrun_record.json").read_text("utf-8")

    failure = classify([member(log("torchrun_no_module"), error_file=recorded)])

    assert "raised ValueError: bad learning rate (record.py:6)" in failure.summary


@pytest.mark.parametrize("junk", ["", "{", "[]", '{"message": "boom"}', "[" * 100_000, "x" * (MAX_CHARS + 1)])
def test_an_error_file_that_is_none_is_left_aside(junk: str) -> None:
    assert classify([member(log("memory_error"), error_file=junk)]).kind == "out_of_memory"


def test_an_error_that_was_survived_is_not_blamed_for_a_crash() -> None:
    failure = classify([member(log("raised_from") + "\ngoing on\n", exit_code=None, signal=SIGSEGV)])

    assert failure.kind == "crash"
    assert failure.evidence.endswith("going on")


def test_an_import_that_was_only_tried_is_not_the_cause() -> None:
    failure = classify([member(log("raised_while_handling"))])

    assert failure.kind == "user_exception"
    assert "No module named 'apex'" in failure.evidence, "the whole chain is shown"


def test_colours_and_progress_bars_do_not_hide_a_traceback() -> None:
    text = (
        "\r  0%|          | 0/10\r 10%|█         | 1/10"
        "\x1b[31mTraceback (most recent call last):\x1b[0m\r\n"
        '  File \x1b[35m"/app/train.py"\x1b[0m, line \x1b[35m42\x1b[0m, in \x1b[35m<module>\x1b[0m\r\n'
        "    \x1b[1;31mtrain\x1b[0m()\r\n"
        "\x1b[1;35mValueError\x1b[0m: \x1b[35mloss is nan\x1b[0m\r\n"
    )

    assert classify([member(text)]).summary == "The program raised ValueError: loss is nan (train.py:42)."


def test_a_prefix_on_every_line_is_taken_off() -> None:
    text = "".join(f"[worker-0] {line}\n" for line in log("raised_from").splitlines())

    failure = classify([member(text)])

    assert failure.summary == "The program raised RuntimeError: cannot read config.json (chained.py:6)."


def test_a_long_traceback_is_cut_in_the_middle() -> None:
    frames = "".join(f'  File "/app/deep.py", line {n}, in f\n    f()\n' for n in range(500))
    text = f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n"

    evidence = classify([member(text)]).evidence

    assert len(evidence.splitlines()) == 80
    assert "lines left out" in evidence
    assert evidence.endswith("RecursionError: too deep")


@pytest.mark.parametrize(
    ("module", "package"), [("cv2", "opencv-python"), ("yaml.loader", "PyYAML"), ("torch.nn", "torch")]
)
def test_a_module_is_named_by_its_package(module: str, package: str) -> None:
    assert package_of(module) == package


# Any text at all

PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        "Original Traceback (most recent call last):",
        '  File "/app/train.py", line 42, in main',
        "    train()",
        "ValueError: bad",
        "ModuleNotFoundError: No module named 'cv2'",
        "The above exception was the direct cause of the following exception:",
        "Root Cause (first observed failure):",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 1)  (SIGKILL)",
        "=" * 60,
        "muster: rank 3 (local 1) exited with 1",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/app/train.py", line 42, in main',
        "[rank1]: KeyError: '{exit_code}'",
        "[default0]:",
        "Exception ignored in: x",
        "",
        " ",
    ]
)
LOG_TEXTS = st.one_of(
    st.text(st.characters()),  # surrogates and all
    st.binary().map(lambda data: data.decode("latin-1")),
    st.lists(st.one_of(PIECES, st.text(max_size=20))).map("\n".join),
)
MEMBERS = st.builds(
    member,
    LOG_TEXTS,
    rank=st.integers(0, 3),
    state=st.sampled_from(ReplicaState),
    exit_code=st.none() | st.integers(-300, 300),
    signal=st.none() | st.integers(0, 99),
    reason=LOG_TEXTS,
    error_file=LOG_TEXTS,
)


@given(st.lists(MEMBERS, max_size=4))
def test_any_text_gets_a_class_a_sentence_and_bounded_evidence(members: list[EndedMember]) -> None:
    failure = classify(members)

    assert_presentable(failure)


def assert_presentable(failure: Failure) -> None:
    assert failure.kind in {row.kind for row in CLASSES}
    assert failure.summary.endswith(".")
    assert "\n" not in failure.summary
    assert len(failure.summary) < 1000
    assert len(failure.evidence) <= 8 * 1024
    for text in (failure.summary, failure.evidence):
        assert "\x00" not in text
        text.encode("utf-8")


CONTEXT = "During handling of the above exception, another exception occurred:"


@pytest.mark.parametrize(
    "piece",
    [
        "Traceback (most recent call last):\n",
        'Traceback (most recent call last):\n  File "a", line 1\nE: x\n\n' + CONTEXT + "\n\n",
        '  File "a.py", line 1\n',
        "[rank1]: Traceback (most recent call last):\n[rank2]: \n",
        "Root Cause (first observed failure):\n",
        "muster: rank 3 (local 1) exited with 1\n",
        "CUDA out of memory. Tried to allocate 1.0 GiB",
        "client socket has timed out after (",
        "sh: 1: exec: ",
        "gloo ",
        "NCCL WARN ",
        "a.so",
        "\x1b[",
        "\x1b]",
        "\r",
        "\n",
        "a\n",
        " ",
        "a.",
        "[" * 7,
    ],
)
@pytest.mark.parametrize("exit_code", [1, 127, None])
def test_no_text_makes_it_slow(piece: str, exit_code: int | None) -> None:
    text = piece * (MAX_CHARS // len(piece) + 1)

    started = time.thread_time()
    failure = classify([member(text, exit_code=exit_code)])
    took = time.thread_time() - started

    assert took < 1
    assert_presentable(failure)


def test_many_ranks_in_one_log_do_not_make_it_slow() -> None:
    text = "".join(
        f"[rank{n}]: Traceback (most recent call last):\n"
        f'[rank{n}]:   File "a.py", line 1\n'
        f"[rank{n}]: gloo: Connection closed by peer\n"
        for n in range(5000)
    )

    started = time.thread_time()
    failure = classify([member(text)])

    assert time.thread_time() - started < 1
    assert failure.kind == "peer_lost"
