#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel with gloo: ddp_worker.py NET.prototxt NAME LAYOUT.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are those of torchrun; without them it trains alone.
Rank 0 prints the seconds of each block of iterations."""
import os
import pathlib
import sys
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "gpu")]
import measured_nets as nets  # noqa: E402
import torch_net  # noqa: E402


def module_of(text, inputs):
    torch.manual_seed(1)
    module = torch_net.Net(text, "TRAIN")
    module.inputs = ["data", "label"]
    with torch.no_grad():
        module(*(tensor[:2] for tensor in inputs))  # lazy modules infer their shapes
    return module.train()


def main():
    torch.set_num_threads(1)
    net, channels_last = nets.NETS[sys.argv[2]], sys.argv[3] == "channels_last"
    inputs = [torch.full((net.batch, *net.shape), 0.5), torch.ones(net.batch, dtype=torch.long)]
    module = module_of(pathlib.Path(sys.argv[1]).read_text(), inputs)
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        inputs[0] = inputs[0].to(memory_format=torch.channels_last)
    parameters = list(module.parameters())
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        distributed.init_process_group("gloo")
        # As Crema: running statistics of each rank, and no copy of gradients.
        module = DistributedDataParallel(module, broadcast_buffers=False,
                                         gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(parameters, 1e-5, 0.9, weight_decay=0.0005, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=not several)
        module(*inputs).backward()
        optimizer.step()

    step()
    for _ in range(nets.BLOCKS):
        begin = time.perf_counter()
        for _ in range(net.block):
            step()
        if os.environ.get("RANK", "0") == "0":
            print(time.perf_counter() - begin, flush=True)
    if several:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
