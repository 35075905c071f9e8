"""Runs a PyTorch module: a forward pass, or a training step."""
import contextlib

import numpy
import torch

import agreement
import caffemodel
import torch_net


def autocast(precision):
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", torch.bfloat16)


class Inference:
    """`net` is a module, or what torch.compile made of it."""

    def __init__(self, case, net, inputs):
        self.net = net
        self.inputs = inputs
        self.precision = case.precision
        self.results = ()

    def run(self):
        with torch.inference_mode(), autocast(self.precision):
            self.results = self.net(*self.inputs)

    def outputs(self):
        return [result.float().contiguous().numpy() for result in self.results]


class Training:
    """`module` owns the parameters, `net` computes the loss: the same, or compiled."""

    def __init__(self, case, module, net, inputs):
        self.case = case
        self.module = module
        self.net = net
        self.inputs = inputs
        if not case.dropout:
            for layer in module.modules():
                if isinstance(layer, torch.nn.Dropout):
                    layer.p = 0.0
        groups = {}
        for _, _, parameter, rate, decay in module.learned():
            groups.setdefault((rate, decay), []).append(parameter)
        self.optimizer = torch.optim.SGD(
            [{"params": parameters, "lr": case.rate * rate, "weight_decay": 0.0005 * decay}
             for (rate, decay), parameters in groups.items()], momentum=0.9, fused=True)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.case.precision):
            loss = self.net(*self.inputs)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def updates(self, path):
        """Returns the distance of the parameter changes from those of Crema (`path`)."""
        before = _blobs_of(self.case, self.case.net)
        theirs = _blobs_of(self.case, path)
        worst = (0.0, "")
        squares = numpy.zeros(2)
        for layer, index, parameter, _, _ in self.module.learned():
            key = (layer, index)
            expected = theirs[key].ravel() - before[key].ravel()
            got = parameter.detach().contiguous().numpy().ravel() - before[key].ravel()
            sums = numpy.array([numpy.sum((got - expected)**2), numpy.sum(expected**2)], float)
            squares += sums
            error = float(numpy.sqrt(sums[0] / max(sums[1], 1e-30)))
            worst = max(worst, (error, f"{layer}[{index}]"))
        difference, size = map(float, numpy.sqrt(squares))
        return {"difference": agreement.relative(difference, size), "worst_blob": worst}


def _blobs_of(case, path):
    net = caffemodel.read(path, case.descriptors)
    return {(layer.name, index): blob for layer in net.layer
            for index, blob in enumerate(caffemodel.blobs(layer))}


def make(case, module, net, inputs):
    if case.mode == "train":
        return Training(case, module, net, inputs)
    return Inference(case, net, inputs)


def load(case, channels_last=False):
    """The module and the inputs of a case."""
    torch.set_num_threads(case.threads)
    module = torch_net.load(case)
    inputs = torch_net.input_tensors(case)
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    return module, inputs
