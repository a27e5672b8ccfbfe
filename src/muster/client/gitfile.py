"""`muster.yaml` of a repository, read where the user is: that one file at that one commit, no checkout."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.client.git import GitFailed, ask
from muster.client.jobfile import FILE, JobFile, parse_jobfile
from muster.domain import document
from muster.domain.errors import BadConfigFile
from muster.domain.source import GitSource

SECONDS = 30.0  #: for the remote to hand over the names of its files, and this one
_PLAIN_FILES = ("100644", "100755")


async def jobfile_of(source: GitSource) -> JobFile | None:
    """What the source's folder says at its commit; None: it cannot be fetched from here."""
    if source.commit is None:
        return None
    with TemporaryDirectory(prefix="muster-git-") as folder:
        try:
            async with asyncio.timeout(SECONDS):
                raw = await _read(Path(folder), source.url, source.commit, _path(source))
        except (OSError, TimeoutError, GitFailed):
            return None
    return parse_jobfile(raw, path=_path(source)) if raw is not None else JobFile()


def _path(source: GitSource) -> str:
    return f"{source.folder}/{FILE}" if source.folder else FILE


async def _read(folder: Path, url: str, commit: str, path: str) -> bytes | None:
    """The file; None: there is none. Other files are not fetched, where the remote can leave them out."""
    await ask("init", "--quiet", "--bare", "--template=", ".", folder=folder)
    await ask("config", "remote.origin.url", url, folder=folder)
    fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", "--filter=blob:none", "origin", commit)
    await ask(*fetch, folder=folder)
    listed = await ask("ls-tree", "-z", "--full-tree", commit, "--", path, folder=folder)
    if not listed:
        return None
    mode, _, number = listed.split(b"\t")[0].decode().split()
    if mode not in _PLAIN_FILES:
        raise BadConfigFile(f"{path} of the repository is not a plain file.", hint="Commit the file itself.")
    if int(await ask("cat-file", "-s", number, folder=folder)) > document.MAX_BYTES:
        raise document.too_large(path)
    return await ask("cat-file", "blob", number, folder=folder)
