"""A net of a caffemodel as one PyTorch module."""
import torch
from torch import nn

import caffemodel
import torch_layers


class Net(nn.Module):
    """Runs layers in the order of the file. Keeps no protobuf message, so that it can be pickled.

    blob_parameters: (layer, index of the blob, parameter, lr_mult, decay_mult), of what is learned.
    """

    def __init__(self, net):
        super().__init__()
        self.steps = []  # (inputs, output) by module
        self.modules_in_order = nn.ModuleList()
        self.inputs = []
        self.losses = []  # (blob, weight)
        self.blob_names = []
        layers = list(net.layer)
        at = 0
        while at < len(layers):
            at += self._add(layers, at)
        read = {name for names, _ in self.steps for name in names}
        # A name that is written after it was read for the last time is an output as well.
        last_write = {output: i for i, (_, output) in enumerate(self.steps)}
        last_read = {name: i for i, (names, _) in enumerate(self.steps) for name in names}
        self.outputs = sorted(name for name, i in last_write.items()
                              if name not in read or last_read[name] <= i)

    def forward(self, *inputs):
        blobs = dict(zip(self.inputs, inputs))
        for module, (names, output) in zip(self.modules_in_order, self.steps):
            blobs[output] = module(*(blobs[name] for name in names))
        if self.losses:
            return sum(weight * blobs[name] for name, weight in self.losses)
        return tuple(blobs[name] for name in self.outputs)

    def learned(self):
        """(layer, blob, parameter, lr_mult, decay_mult) of each learned blob."""
        parameters = dict(self.named_parameters())
        for layer, index, name, rate, decay in self.blob_names:
            yield layer, index, parameters[name], rate, decay

    def _add(self, layers, at):
        """Adds the layer at that place; how many layers that took."""
        layer = layers[at]
        if layer.type == "Input":
            self.inputs += layer.top
            return 1
        if layer.type == "BatchNorm":
            self._add_batch_norm(layer, layers[at + 1])
            return 2
        blobs = caffemodel.blobs(layer)
        module = torch_layers.make(layer, blobs)
        self._append(module, layer)
        self._learn(layer, module.parameters(), blobs)
        if layer.type == "SoftmaxWithLoss":
            self.losses.append((layer.top[0], layer.loss_weight[0] if layer.loss_weight else 1.0))
        return 1

    def _add_batch_norm(self, norm, scale):
        if scale.type != "Scale" or list(scale.bottom) != list(norm.top):
            raise NotImplementedError(f'BatchNorm "{norm.name}" without a Scale behind it')
        mean, variance, count = caffemodel.blobs(norm)
        module = torch_layers.make_batch_norm(len(mean), norm.batch_norm_param.eps)
        factor = 1 / count[0] if count[0] else 0
        module.running_mean.copy_(torch.from_numpy(mean * factor))
        module.running_var.copy_(torch.from_numpy(variance * factor))
        self._append(module, norm, scale.top[0])
        self._learn(scale, module.parameters(), caffemodel.blobs(scale))

    def _append(self, module, layer, top=None):
        self.steps.append((list(layer.bottom), top or layer.top[0]))
        self.modules_in_order.append(module)

    def _learn(self, layer, parameters, blobs):
        prefix = f"modules_in_order.{len(self.modules_in_order) - 1}."
        names = [name for name, _ in self.modules_in_order[-1].named_parameters()]
        for index, (name, parameter, blob) in enumerate(zip(names, parameters, blobs)):
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(blob).reshape(parameter.shape))
            spec = layer.param[index] if index < len(layer.param) else None
            self.blob_names.append((layer.name, index, prefix + name,
                                    spec.lr_mult if spec else 1.0,
                                    spec.decay_mult if spec else 1.0))


def make(case):
    """The net of a case (case.py), ready to run."""
    net = Net(caffemodel.read(case.net, case.descriptors))
    return net.train() if case.mode == "train" else net.eval()


def prepare(case):
    """Writes the net as a pickled module, once a case."""
    if not case.shared("net.pt").exists():
        torch.save(make(case), case.shared("net.pt"))


def load(case):
    return torch.load(case.shared("net.pt"), weights_only=False, mmap=True)


def input_tensors(case):
    return [torch.from_numpy(values) for values in case.inputs()]
