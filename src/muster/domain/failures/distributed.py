"""Failures between ranks: they do not meet, or lose each other."""

from __future__ import annotations

from muster.domain.failures.sign import FailureClass, Sign, words

PORT_IN_USE = FailureClass(
    kind="port_in_use",
    title="Port in use",
    advice="Launch it again. If MASTER_PORT or another port is fixed in your code or job, choose a free "
    "one, or leave it out and Muster picks one.",
    signs=(
        Sign(
            words=words(r"port: (?P<port>\d{1,5}),.{0,80}EADDRINUSE"),
            says="could not listen on port {port}: another program has it",
        ),
        Sign(
            words=words(r"EADDRINUSE|Address already in use"),
            says="could not listen on its port: another program has it",
        ),
    ),
)

RENDEZVOUS_TIMEOUT = FailureClass(
    kind="rendezvous_timeout",
    title="The members did not meet",
    advice="Look first at the members that did not come: `muster run replicas`. If they only start slowly, "
    "raise training.rdzv_timeout; else check that they reach rank 0 by name and port (firewall, "
    "network policy).",
    signs=(
        Sign(
            words=words(r"waiting for clients\. (?P<there>\d{1,7})/(?P<all>\d{1,7}) clients joined"),
            says="waited too long for the others: {there} of {all} joined",
            echo=True,
        ),
        Sign(
            words=words(
                r"client socket has timed out after .{0,40}connect to "
                r"\((?P<host>[^,)\n]{1,255}), (?P<port>\d{1,5})\)"
            ),
            says="could not reach rank 0 at {host}:{port} in time",
            echo=True,
        ),
        Sign(
            words=words(r"RendezvousTimeoutError|timed out waiting for clients|RendezvousClosedError"),
            says="waited too long for the other members to join",
            echo=True,
        ),
    ),
)

NCCL = FailureClass(
    kind="nccl",
    title="NCCL failed",
    advice="Look first for a rank that stopped, hung or took another path (a collective needs all ranks). "
    "Then set NCCL_DEBUG=INFO, and NCCL_SOCKET_IFNAME if nodes have several networks; a slow but "
    "healthy step needs a longer timeout in init_process_group.",
    signs=(
        Sign(
            words=words(r"ollective operation timeout: .{0,60}OpType=(?P<op>\w{1,40})"),
            says="waited too long in the NCCL collective {op}: not all ranks came",
            echo=True,
        ),
        Sign(
            words=words(r"^nccl(?P<what>[A-Z]\w{1,40}): (?P<why>[^\n]{1,120})"),
            says="had an NCCL error, {what}: {why}",
            echo=True,
        ),
        Sign(
            words=words(r"NCCL error|NCCL WARN .{0,200}failed|ProcessGroupNCCL.{0,200}(?:error|timeout)"),
            says="had an NCCL error",
            echo=True,
        ),
    ),
)

PEER_LOST = FailureClass(
    kind="peer_lost",
    title="Another rank went away",
    advice="This rank is mostly not the cause: look at the logs of the others (`muster run replicas`), "
    "whether one was killed, evicted or hangs, and at the network between the nodes.",
    signs=(
        Sign(
            words=words(r"gloo.{0,200}(?:onnection (?:closed|reset) by peer|Timed out waiting)"),
            says="lost the connection to another rank in the middle of a collective",
            echo=True,
        ),
        Sign(
            words=words(r"RendezvousConnectionError|DistNetworkError|RendezvousGracefulExitError"),
            says="lost the connection to the member that keeps the rendezvous",
            echo=True,
        ),
    ),
)
