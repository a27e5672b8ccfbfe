"""Logs of pods on simulated nodes, in a process of its own: `python -m bench.kubelet SERVER PKI ADDRESS`.

KWOK says that they run and end, but has no logs. With this, whoever follows a log of such a pod holds a
stream through the API server for as long as the pod runs, as on a real node: one line, then silence, then the
end. Says the port at which it serves.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx

from cluster.cluster import Cluster

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"


class Pods:
    """Which of them have ended."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)

    async def ended(self, namespace: str, name: str) -> None:
        await self._ends[namespace, name].wait()

    async def watch(self, server: str, pki: Path) -> None:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        endless = httpx.Timeout(30, read=None)
        async with httpx.AsyncClient(base_url=server, verify=context, trust_env=False) as client:
            while True:
                params = {"watch": "1", "resourceVersion": "0"}
                async with client.stream("GET", "/api/v1/pods", params=params, timeout=endless) as answer:
                    async for line in answer.aiter_lines():
                        event = json.loads(line)
                        pod = event["object"]
                        if event["type"] == "DELETED" or pod["status"]["phase"] in ("Succeeded", "Failed"):
                            self._ends[pod["metadata"]["namespace"], pod["metadata"]["name"]].set()


async def main(server: str, pki: Path, address: str) -> None:
    pods = Pods()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki / "simulated.crt", pki / "simulated.key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()  # /containerLogs/NAMESPACE/POD/…
        _, _, namespace, name, *_ = asked.split("/")
        writer.write(_HEAD + f"{datetime.now(UTC).isoformat()} simulated\n".encode())
        await writer.drain()
        if "follow=true" in asked:
            await pods.ended(namespace, name)
        writer.close()

    serving = await asyncio.start_server(answer, address, 0, ssl=context)
    print(serving.sockets[0].getsockname()[1], flush=True)
    await pods.watch(server, pki)


def command(cluster: Cluster) -> Sequence[str | Path]:
    """What starts it for a cluster, whose authority must sign for it first."""
    pki = cluster.folder / "pki"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-subj", "/CN=simulated", "-addext", f"subjectAltName=IP:{cluster.host_address}"]
    words += ["-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key")]
    words += ["-keyout", str(pki / "simulated.key"), "-out", str(pki / "simulated.crt")]
    subprocess.run(words, check=True, capture_output=True)
    return [sys.executable, "-m", "bench.kubelet", cluster.server, pki, cluster.host_address]


def announce(cluster: Cluster, node: str, port: int) -> None:
    """Let the API server look for the logs of this node's pods here."""
    status = {
        "addresses": [{"type": "InternalIP", "address": cluster.host_address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    cluster.api.patch(
        f"/api/v1/nodes/{node}/status",
        content=json.dumps({"status": status}),
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
