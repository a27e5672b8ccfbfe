"""A small DistributedDataParallel training: every process fits the same model on its own share of the data.

Run it anywhere torchrun's variables are set:

    muster launch examples/ddp --nodes 2 --procs-per-node 2 --follow -- train.py --epochs 3
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before the group is made: see main()
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def say(words: str) -> None:
    """In one write, as `print` is not: the processes of a node share their output."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def make_data(samples: int, features: int) -> TensorDataset:
    """A noisy function of random points; the same on every rank."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(samples, features, generator=generator)
    weights = torch.randn(features, 1, generator=generator)
    noise = 0.05 * torch.randn(samples, 1, generator=generator)
    return TensorDataset(inputs, torch.tanh(inputs @ weights) + noise)


def train(epochs: int, batch_size: int, learning_rate: float) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    parallel = DistributedDataParallel(model, device_ids=[device.index] if use_gpu else None)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=learning_rate)
    data = make_data(samples=4096, features=16)
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=batch_size, sampler=sampler)
    loss_function = nn.MSELoss()
    mean_loss = torch.zeros(1, device=device)
    for epoch in range(1, epochs + 1):
        started = time.perf_counter()
        sampler.set_epoch(epoch)
        total = torch.zeros(1, device=device)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_function(parallel(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        mean_loss = total / len(loader)
        dist.all_reduce(mean_loss)
        mean_loss /= world_size
        if rank == 0:
            seconds = time.perf_counter() - started
            say(f"epoch {epoch}/{epochs}  loss {mean_loss.item():.4f}  {seconds:.2f} s")
    return mean_loss.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.003)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    say(f"rank {rank} of {world_size} is here (node {os.environ.get('NODE_RANK', '0')})")
    loss = train(arguments.epochs, arguments.batch_size, arguments.lr)
    if rank == 0 and (output := os.environ.get("MUSTER_OUTPUT_DIR")):
        Path(output, "result.json").write_text(json.dumps({"loss": loss, "world_size": world_size}))
    dist.barrier()  # nobody leaves while another still talks
    # Ends the group's threads, which else may abort a process that ends. Were torch.distributed.nn imported
    # by DistributedDataParallel, after the group is made, its functions' defaults would keep the group.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
