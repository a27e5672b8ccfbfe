"""The wire between this machine and a cluster, and the addresses at its ends.

Every cluster has a network of its own. One pair of interfaces joins it to the machine: `muster…` here,
`eth0` there; it goes when the cluster goes. The addresses are of 198.18.0.0/15, which is set aside for tests.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.room import Room

#: Two addresses of the services' range belong to the loopback of the node, where the API server and the DNS
#: server listen. So pods reach both as in any cluster, without a kube-proxy; other services must be headless.
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
_MOST = 120


@dataclass(frozen=True, kw_only=True)
class Network:
    interface: str
    host: str  #: this machine, as pods see it
    node: str  #: the node and the API server, as this machine and pods see them
    pods: str


def join(room: Room) -> Network:
    for number in range(_MOST):
        network = Network(
            interface=f"muster{number}",
            host=f"198.18.{2 * number}.1",
            node=f"198.18.{2 * number}.2",
            pods=f"198.18.{2 * number + 1}.0/24",
        )
        # An interface is the claim to its addresses: the kernel lets only one be made by a name.
        if not Path("/sys/class/net", network.interface).exists() and _claim(network, room):
            _ip("address", "add", f"{network.host}/30", "dev", network.interface)
            _ip("link", "set", network.interface, "up")
            room.run(
                *("sh", "-ec"),
                f"""
                ip link set lo up
                ip address add {network.node}/30 dev eth0
                ip address add {API_SERVICE}/32 dev lo
                ip address add {DNS_SERVICE}/32 dev lo
                ip link set eth0 up
                ip route add default via {network.host}
                echo 1 > /proc/sys/net/ipv4/ip_forward
                """,
            )
            _ip("route", "add", network.pods, "via", network.node)
            return network
    raise ClusterError(f"{_MOST} clusters run on this machine already. Stop some: make cluster-down.")


def endpoints(name: str, namespace: str, address: str, port: int, *, port_name: str = "") -> dict[str, Any]:
    """They tell the API server where the Service of this name leads, which has no pods."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": [{"name": port_name, "port": port}],
        "endpoints": [{"addresses": [address]}],
    }


def _claim(network: Network, room: Room) -> bool:
    pair = f"link add {network.interface} type veth peer name eth0 netns {room.pid}"
    done = subprocess.run(["ip", *pair.split()], capture_output=True, text=True)
    if done.returncode and "File exists" not in done.stderr:
        raise ClusterError(
            f"This machine does not give a cluster its network: ip {pair}: {done.stderr.strip()}"
        )
    return done.returncode == 0


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"ip {' '.join(words)}: {done.stderr.strip()}")
