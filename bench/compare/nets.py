"""The nets that are compared."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Net:
    """`inputs` and `integers` are without and with the batch; integers lie below their bound."""

    name: str
    train: str  # prototxt, from the root of the sources
    deploy: str
    inputs: dict  # blob: shape of one sample
    integers: dict  # blob: bound
    train_batch: int
    infer_batches: tuple = (1, 8, 32)

    def shapes(self, batch, mode):
        """As compare_runner takes them."""
        labels = () if mode == "train" else ("label",)
        return ";".join(f"{blob}:" + ",".join(str(extent) for extent in (batch, *extents))
                        for blob, extents in self.inputs.items() if blob not in labels)

    def bounds(self):
        return ";".join(f"{blob}:{bound}" for blob, bound in self.integers.items())


def _images(name, folder, extents, classes, train_batch):
    return Net(name, f"models/{folder}/train_val.prototxt", f"models/{folder}/deploy.prototxt",
               {"data": extents, "label": ()}, {"label": classes}, train_batch)


_TRANSFORMER = "bench/compare/nets/transformer6.prototxt"

# Training batches are those of Caffe's table; VGG-16 and the transformer are not in it.
NETS = {net.name: net for net in (
    _images("lenet", "lenet", (1, 28, 28), 10, 64),
    _images("cifar10_quick", "cifar10_quick", (3, 32, 32), 10, 100),
    _images("caffenet", "caffenet", (3, 227, 227), 1000, 32),
    _images("googlenet", "googlenet", (3, 224, 224), 1000, 10),
    _images("vgg16", "vgg16", (3, 224, 224), 1000, 8),
    _images("squeezenet_v1.1", "squeezenet_v1.1", (3, 227, 227), 1000, 10),
    _images("mobilenet_v1", "mobilenet_v1", (3, 224, 224), 1000, 10),
    _images("resnet50", "resnet50", (3, 224, 224), 1000, 8),
    Net("transformer6", _TRANSFORMER, _TRANSFORMER, {"tokens": (128,), "label": (128,)},
        {"tokens": 1000, "label": 1000}, 8),
)}
