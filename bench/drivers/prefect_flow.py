"""A flow that runs a command; Prefect's worker loads it by its path."""

import subprocess

from prefect import flow


@flow  # type: ignore[untyped-decorator]
def command(words: list[str]) -> None:
    subprocess.run(words, check=True)
