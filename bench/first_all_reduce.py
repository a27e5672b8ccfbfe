"""The smallest training: all ranks meet, add a number up, and rank 0 knocks: `first_all_reduce.py PIPE`."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if total.item() != dist.get_world_size():
    sys.exit(f"the sum is {total.item()}")
if dist.get_rank() == 0:
    pipe = os.open(sys.argv[1], os.O_WRONLY)
    os.write(pipe, b"\n")
    os.close(pipe)
dist.destroy_process_group()
