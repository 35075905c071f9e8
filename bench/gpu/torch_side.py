"""PyTorch's side of a race: a net as its users would run it on that device."""
import contextlib
import time

import torch

import torch_net

VARIANTS = ("eager", "compiled")
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def _inputs(net, race, device):
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for blob, shape in net.shapes(race.batch, race.mode).items():
        if blob in net.integers:
            values = torch.randint(net.integers[blob], shape, generator=generator)
        else:
            values = torch.randn(shape, generator=generator)
            if values.dim() == 4:
                values = values.to(memory_format=torch.channels_last)
        tensors[blob] = values.to(device)
    return tensors


class Torch:
    """One net, loaded: eager or compiled, channels_last, with autocast below fp32."""

    def __init__(self, net, race, text, variant, device):
        self.device = torch.device(device)
        self.race = race
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high" if race.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = race.precision == "tf32"
        module = torch_net.Net(text, "TRAIN" if race.mode == "train" else "TEST")
        tensors = _inputs(net, race, self.device)
        self.inputs = [tensors[blob] for blob in module.inputs if blob in tensors]
        module = module.to(self.device)
        module.train(race.mode == "train")
        with torch.no_grad():
            module(*(x[:2] for x in self.inputs))  # lazy modules infer their shapes
        self.module = module.to(self.device, memory_format=torch.channels_last)
        self.learned = sum(p.numel() for p in module.parameters())
        self.net = torch.compile(self.module) if variant == "compiled" else self.module
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=race.precision == "fp16")
        if race.mode == "train":
            self.optimizer = torch.optim.SGD(module.parameters(), 1e-5, 0.9, weight_decay=5e-4,
                                             fused=True)

    def _autocast(self):
        if self.race.precision not in _TYPES:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, _TYPES[self.race.precision])

    def _train(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self.net(*self.inputs)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _infer(self):
        with torch.inference_mode(), self._autocast():
            self.net(*self.inputs)

    def _wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def passes(self, count, wait):
        """Seconds of that many passes; with `wait`, waiting for the device behind each."""
        run = self._train if self.race.mode == "train" else self._infer
        self._wait()
        begin = time.perf_counter()
        for _ in range(count):
            run()
            if wait:
                self._wait()
        self._wait()
        return time.perf_counter() - begin

    def close(self):
        del self.net, self.module, self.inputs
        if self.race.mode == "train":
            del self.optimizer
        torch._dynamo.reset()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
