"""A run becomes the processes to start on one machine. Pure: the server previews with the same code.

Every text in the manifest is a template (`muster.domain.template`). `${name}` stands for what only the
agent knows:

    ${workdir} ${output_dir} ${error_dir} ${launcher} ${python} ${master_port} ${devices}

What the launch brought (command, environment, names, inputs) is written as literal text, `$${…}`, so a
`${workdir}` in a user's command reaches the program as it was typed. The queue's own config may use
these macros, and those of the run (`${run_id}` …), which are filled here. One that nobody knows stays.
"""

from __future__ import annotations

from muster.domain.errors import BadCommand
from muster.domain.resources import format_bytes, format_cpus
from muster.domain.template import as_literal, fill_known
from muster.engine.facts import run_env, run_macros
from muster.engine.launcher import launcher_env
from muster.engine.port import Rendered, Work
from muster.engine.process.config import ProcessConfig, check_env_name

#: What `submit` fills.
MACROS = frozenset({"workdir", "output_dir", "error_dir", "launcher", "python", "master_port", "devices"})


def render(work: Work) -> Rendered:
    """What `submit` will start, with the agent's macros still in it."""
    config = ProcessConfig.parse(fill_known(work.config, run_macros(work)))
    if not work.command or not work.command[0]:
        raise BadCommand("There is no command to run.", hint="Give one after `--`, or launch a `.py` file.")
    nodes = work.training.nodes if work.training else 1
    shared = _env(work, config)
    replicas = [
        {
            "rank": rank,
            "command": _command(work, config),
            "env": {**shared, **_replica_env(work, rank)},
            "workdir": _workdir(config),
            "resources": {
                "cpus": format_cpus(config.resources.millicpus),
                "memory": format_bytes(config.resources.memory),
                "gpus": config.resources.gpus,
            },
        }
        for rank in range(nodes)
    ]
    manifest = {
        "engine": "process",
        "stop_grace": int(config.stop_grace) if config.stop_grace.is_integer() else config.stop_grace,
        "python": config.python or "${python}",
        "replicas": replicas,
    }
    return Rendered(
        key=work.key,
        engine="process",
        manifest=manifest,
        replicas=nodes,
        resources=config.resources * nodes,
    )


def _command(work: Work, config: ProcessConfig) -> list[str]:
    command = [as_literal(word) for word in work.command]
    if work.training is not None:
        return ["sh", "${launcher}", *command]
    if command[0].endswith(".py"):
        return [config.python or "${python}", *command]
    return command


def _workdir(config: ProcessConfig) -> str:
    if config.workdir is None:
        return "${workdir}"
    if config.workdir.startswith(("/", "${")):
        return config.workdir
    return "${workdir}/" + config.workdir


def _env(work: Work, config: ProcessConfig) -> dict[str, str]:
    """The variables all replicas share; a later one wins: queue, launch, Muster's own."""
    launch = {check_env_name(name): as_literal(value) for name, value in work.env.items()}
    return {
        "PYTHONUNBUFFERED": "1",
        **config.env,
        **launch,
        **{name: as_literal(value) for name, value in run_env(work).items()},
        "MUSTER_OUTPUT_DIR": "${output_dir}",
        "CUDA_VISIBLE_DEVICES": "${devices}",
        **_training_env(work, config),
    }


def last_word_on(name: str, work: Work) -> bool:
    """Does Muster set this variable, whatever queue and launch say?"""
    own = {"CUDA_VISIBLE_DEVICES", "NODE_RANK", "NNODES", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT"}
    always = name.startswith("MUSTER_") or name == "CUDA_VISIBLE_DEVICES"
    return always or (work.training is not None and name in own)


def _training_env(work: Work, config: ProcessConfig) -> dict[str, str]:
    if work.training is None:
        return {}
    return {
        **launcher_env(
            work.training,
            command=work.command,
            gpus_per_node=config.resources.gpus,
            python=config.python,
        ),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "${master_port}",
        "MUSTER_ERROR_DIR": "${error_dir}",
        "MUSTER_STOP": "group",
    }


def _replica_env(work: Work, rank: int) -> dict[str, str]:
    return {} if work.training is None else {"NODE_RANK": str(rank)}
