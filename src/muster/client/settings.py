"""Where the server is and who we are: environment, then config file, then the server on this machine.

`~/.config/muster/config.toml`::

    url = "http://127.0.0.1:8700"
    api_key = "mk-…"
    entity = "team"
    project = "vision"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.domain.errors import BadConfigFile, nearest

DEFAULT_URL = "http://127.0.0.1:8700"
KEYS = ("url", "api_key", "entity", "project")


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    url: str
    api_key: str | None = None
    entity: str | None = None
    project: str | None = None


def config_path(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "muster" / "config.toml"


def data_dir(env: Mapping[str, str]) -> Path:
    """Where `muster up` keeps its things, unless told otherwise."""
    if given := env.get("MUSTER_DATA_DIR"):
        return Path(given).expanduser()
    base = env.get("XDG_DATA_HOME") or Path(env.get("HOME", "~")).expanduser() / ".local" / "share"
    return Path(base) / "muster"


def load(
    env: Mapping[str, str] | None = None, *, url: str | None = None, api_key: str | None = None
) -> ClientSettings:
    """What is given here wins over the environment, that over the config file."""
    env = os.environ if env is None else env
    file = read_config(config_path(env))
    address = (url or env.get("MUSTER_URL") or file.get("url") or DEFAULT_URL).rstrip("/")
    return ClientSettings(
        url=_checked_url(address),
        api_key=api_key or env.get("MUSTER_API_KEY") or file.get("api_key") or _local_key(address, env),
        entity=env.get("MUSTER_ENTITY") or file.get("entity"),
        project=env.get("MUSTER_PROJECT") or file.get("project"),
    )


def read_config(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfigFile(f"{path} cannot be read: {error}.", hint="Mend it, or remove it.") from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfigFile(f"{path} is not valid TOML: {error}.", hint="Mend it, or remove it.") from error
    for key, value in found.items():
        if key not in KEYS:
            near = nearest(key, KEYS)
            hint = f"Did you mean {near!r}?" if near else f"Known keys: {', '.join(KEYS)}."
            raise BadConfigFile(f"{path} has an unknown key {key!r}.", hint=hint)
        if not isinstance(value, str):
            raise BadConfigFile(f"{path}: {key} must be text.", hint=f'Write {key} = "…".')
    return found


def write_config(path: Path, values: Mapping[str, str]) -> None:
    """Keep these settings beside those there, readable by their owner alone."""
    merged = {**read_config(path), **values}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = [f"{key} = {_toml_text(merged[key])}\n" for key in KEYS if key in merged]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(lines)
    temporary.replace(path)


def _toml_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfigFile(f"{url!r} is not the address of a server.", hint=f"Write it like {DEFAULT_URL}.")
    return url


def _local_key(url: str, env: Mapping[str, str]) -> str | None:
    """The key that `muster up` left for its own user, if the server is on this machine."""
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    try:
        return (data_dir(env) / "local.key").read_text().strip() or None
    except OSError:
        return None
