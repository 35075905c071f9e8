"""PyTorch as it is."""
import torch_net
import torch_race


prepare = torch_net.prepare


def load(case):
    module, inputs = torch_race.load(case)
    return torch_race.make(case, module, module, inputs)
