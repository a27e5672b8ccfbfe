"""Failures that a cluster names itself: it could not start the run, or took it away."""

from __future__ import annotations

import re

from muster.domain.failures.sign import FailureClass, Sign

DELETED_OUTSIDE = FailureClass(
    kind="deleted_outside",
    title="Deleted by somebody else",
    advice="Neither Muster nor the program ended it: somebody, or another program with rights in the "
    "namespace, deleted it. The cluster's audit log says who; launch it again.",
    signs=(
        Sign(
            reason=re.compile(r"pod was deleted from outside Muster"),
            says="was ended because its pod was deleted from outside Muster",
        ),
        Sign(
            reason=re.compile(r"(?P<what>\w{1,60} [\w.-]{1,253}) was deleted from outside Muster"),
            says="was ended because {what} was deleted from outside Muster",
        ),
    ),
)

DEADLINE = FailureClass(
    kind="deadline",
    title="Ran longer than it may",
    advice="The queue's config sets the time, activeDeadlineSeconds: its owner may raise it. Or do less in "
    "one run: save checkpoints, and go on from them in the next.",
    signs=(
        Sign(
            reason=re.compile(r"\bDeadlineExceeded\b"),
            says="was ended because it ran longer than its queue allows",
        ),
    ),
)

IMAGE_PULL = FailureClass(
    kind="image_pull",
    title="The image could not be had",
    advice="Check the image's name and tag, that it was pushed, and that the nodes reach the registry and "
    "may read it (imagePullSecrets in the queue's config).",
    signs=(
        Sign(
            reason=re.compile(
                r"\b(?:ErrImagePull|ImagePullBackOff|RegistryUnavailable|ImageInspectError|ErrImageNeverPull"
                r'|InvalidImageName)(?:: Back-off pulling image "[^"]{1,500}")?(?:: ErrImagePull)?: '
                r'(?:failed to pull and unpack image "[^"]{1,500}": )?'
                r'(?:failed to resolve reference "[^"]{1,500}": )?(?P<words>.{1,300})'
            ),
            says="could not start: its image could not be had: {words}",
        ),
        Sign(
            reason=re.compile(r"\b(?:ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName)\b"),
            says="could not start: its image could not be had",
        ),
    ),
)

INIT_FAILED = FailureClass(
    kind="init_failed",
    title="An init container failed",
    advice="It runs before the program and is part of the queue's config; what it printed is in the run's "
    "log, its name before each line.",
    signs=(
        Sign(
            reason=re.compile(
                r"init container '(?P<name>[^']{1,63})' ended with exit code (?P<code>\d{1,9})"
            ),
            says="could not start: init container {name} ended with exit code {code}{last}",
        ),
    ),
)

CANNOT_START = FailureClass(
    kind="cannot_start",
    title="The container could not be started",
    advice="Check the command and that the image has it, and what the queue's config gives the container: "
    "Secrets, ConfigMaps, volumes, its user, its working directory.",
    signs=(
        Sign(
            reason=re.compile(r'\bexec: "(?P<command>[^"]{1,200})": .{0,250}(?:not found|no such file)'),
            says="could not start: the command {command} is not in the image",
        ),
        Sign(
            reason=re.compile(r'\bexec: "(?P<command>[^"]{1,200})": permission denied'),
            says="could not start: {command} is not executable in the image",
        ),
        Sign(
            reason=re.compile(
                r"\b(?:StartError|ContainerCannotRun|RunContainerError|CreateContainerError"
                r"|CreateContainerConfigError|CreatePodSandboxError): (?P<words>.{1,300})"
            ),
            says="could not start: {words}",
        ),
        Sign(
            reason=re.compile(
                r"\b(?P<what>FailedMount|FailedAttachVolume|FailedMapVolume|FailedCreatePodSandBox"
                r"|NetworkNotReady): (?P<words>.{1,300})"
            ),
            says="could not start: {words} ({what})",
        ),
    ),
)

ADMISSION_REFUSED = FailureClass(
    kind="admission_refused",
    title="The cluster does not let its pods in",
    advice="A rule of the namespace refuses them: Pod Security, a LimitRange or an admission webhook. Change "
    "the queue's config (`security: restricted` passes the strictest standard), or the rule.",
    signs=(
        Sign(
            reason=re.compile(r"violates PodSecurity \"(?P<standard>[^\"]{1,60})\": (?P<words>.{1,300})"),
            says="could not start: the namespace enforces the Pod Security Standard {standard}: {words}",
        ),
        Sign(
            reason=re.compile(
                r"admission webhook \"(?P<who>[^\"]{1,200})\" denied the request: (?P<words>.{1,300})"
            ),
            says="could not start: the admission webhook {who} refuses it: {words}",
        ),
        Sign(
            reason=re.compile(r"^(?:forbidden|(?:is )?invalid): (?P<words>.{1,300})"),
            says="could not start: the cluster refuses its pods: {words}",
        ),
    ),
)

NODE_LOST = FailureClass(
    kind="node_lost",
    title="The node was lost",
    advice="The node stopped answering, with the run on it. `kubectl describe node` says since when; launch "
    "it again, or let Muster do that (--retry).",
    signs=(
        Sign(
            reason=re.compile(r"^Node (?P<node>\S{1,253}) of pod \S{1,253} does not answer"),
            says="was lost: node {node} does not answer",
        ),
    ),
)

EVICTED = FailureClass(
    kind="evicted",
    title="Evicted",
    advice="The cluster needed its place: for a pod of higher priority, to empty a node, or because the node "
    "ran low on memory or disk. Give it a higher --priority or more tries (--retry), and ask for the "
    "memory and disk that it uses.",
    signs=(
        Sign(
            reason=re.compile(r"^Pod \S{1,253} was taken away \((?P<why>\w{1,60})\): (?P<words>.{0,300})"),
            says="was taken away by the cluster ({why}): {words}",
        ),
    ),
)
