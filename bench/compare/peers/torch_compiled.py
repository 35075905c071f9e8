"""PyTorch's compiler, channels_last; for inference with weights that may not change (freezing)."""
import torch

import torch_net
import torch_race


prepare = torch_net.prepare


def load(case):
    module, inputs = torch_race.load(case, channels_last=True)
    if case.mode == "infer":
        torch._inductor.config.freezing = True  # pylint: disable=protected-access
    return torch_race.make(case, module, torch.compile(module), inputs)
