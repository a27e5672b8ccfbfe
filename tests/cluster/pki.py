"""The certificates of one cluster, all signed by one authority that exists as long as the cluster does."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Certificate:
    certificate: Path
    key: Path


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        made = self._make("ca", "/CN=muster-cluster", "basicConstraints=critical,CA:TRUE")
        self.certificate = made.certificate
        self._key = made.key

    def client(self, user: str, *, group: str | None = None) -> Certificate:
        """Who shows this is that user; the API server reads names and groups from it."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        return self._sign(user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth")

    def server(self, name: str, *, names: tuple[str, ...]) -> Certificate:
        subjects = ",".join(f"{'IP' if one[0].isdigit() else 'DNS'}:{one}" for one in names)
        return self._sign(name, f"/CN={name}", "extendedKeyUsage=serverAuth", f"subjectAltName={subjects}")

    def _sign(self, name: str, subject: str, *extensions: str) -> Certificate:
        return self._make(
            name, subject, *extensions, by=("-CA", str(self.certificate), "-CAkey", str(self._key))
        )

    def _make(self, name: str, subject: str, *extensions: str, by: tuple[str, ...] = ()) -> Certificate:
        made = Certificate(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            + ["-days", "365", "-subj", subject, "-keyout", str(made.key), "-out", str(made.certificate)]
            + [word for extension in extensions for word in ("-addext", extension)]
            + list(by),
            check=True,
            capture_output=True,
        )
        return made
