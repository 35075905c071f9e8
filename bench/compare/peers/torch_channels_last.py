"""PyTorch with images and filters in channels_last order."""
import torch_net
import torch_race


prepare = torch_net.prepare


def load(case):
    module, inputs = torch_race.load(case, channels_last=True)
    return torch_race.make(case, module, module, inputs)
