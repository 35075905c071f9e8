"""Compares `crema deploy detect` with the models' own decoding: random weights, clear scores.

python bench/detectors/heads.py build/bin/deploy PICTURE... --yolov5=FOLDER --yolov7=FOLDER
    --retinaface=FOLDER --ultra_light=FOLDER --centernet=FOLDER --darknet=FOLDER
The folders are checkouts of ultralytics/yolov5, WongKinYiu/yolov7, biubug6/Pytorch_Retinaface,
Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB (its trained weights are used),
xingyizhou/CenterNet and pjreddie/darknet (after `mkdir obj && make libdarknet.so`); a family
without its folder is skipped. Needs: pip install "opencv-python-headless<5" ultralytics onnx pandas
seaborn tqdm, and for darknet the package crema. Exit code 1: a head was not found, a box is missing
or too many, or edges are more than 0.5 pixels away (0.6 for YOLOv5 and v7).
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from compare import compare, detect

LOW = 0.05  # least score that the own code is asked for
LETTERBOX = ["--fit=letterbox", "--rgb", "--pixel_range=1"]


def randomize(model, images):
    """Random weights whose values neither vanish nor grow on these images."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # running statistics become those of the images
            torch.nn.init.uniform_(module.weight, 0.7, 1.6)
            torch.nn.init.normal_(module.bias, 0, 0.3)
    with torch.no_grad():
        model.train()(images)
    return model.eval()


def set_outputs(model, images, wanted):
    """Gives each channel of convolutions the mean and the deviation in `wanted`."""
    values = {}

    def keep(module, _, output):
        values[module] = output.transpose(0, 1).flatten(1)

    hooks = [module.register_forward_hook(keep) for module in wanted]
    with torch.no_grad():
        model(images)
        for module, rows in wanted.items():
            mean, deviation = torch.tensor(rows, dtype=torch.float32).T
            factor = deviation / values[module].std(1)
            module.weight *= factor[:, None, None, None]
            module.bias.copy_(mean + (module.bias - values[module].mean(1)) * factor)
    for hook in hooks:
        hook.remove()


def export(model, image, path, outputs):
    torch.onnx.export(
        model,
        image,
        path,
        opset_version=17,
        dynamo=False,
        input_names=["images"],
        output_names=outputs,
    )


def clear(rows, least=None):
    """Returns a confidence that no score is near, and the rows above it, best first."""
    rows = sorted(rows, key=lambda row: -row[4])
    scores = [row[4] for row in rows]
    if least is None:
        gaps = -np.diff(scores[20:60])
        least = float(scores[20 + gaps.argmax()] - gaps.max() / 2)
    return least, [row for row in rows if row[4] > least]


class Family:
    """Compares the nets of one repository."""

    def __init__(self, name, folder, deploy, pictures):
        self.deploy, self.pictures, self.folder = deploy, pictures, folder
        self.scratch = Path(tempfile.mkdtemp())
        self.good = True
        if folder:
            sys.path.insert(0, str(folder))
        torch.manual_seed(1)
        globals()[name](self)
        sys.exit(not self.good)

    def crops(self, width, height):
        """Returns the middle of each picture as a PNG of this size."""
        paths = []
        for picture in self.pictures:
            image = cv2.imread(picture)
            factor = max(width / image.shape[1], height / image.shape[0], 1)
            image = cv2.resize(image, None, fx=factor, fy=factor)
            top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
            paths.append(str(self.scratch / f"{Path(picture).stem}.png"))
            cv2.imwrite(paths[-1], image[top : top + height, left : left + width])
        return paths

    def compare(self, title, picture, own, flags, least=None, points_inside=False, limit=0.5):
        """`own` has rows as compare.compare takes them; `points_inside`: of the picture."""
        image = cv2.imread(picture)
        limits = [image.shape[1], image.shape[0]] * 2
        confidence, expected = clear(
            [[*np.clip(row[:4], 0, limits), *row[4:]] for row in own], least
        )
        found = detect(self.deploy, [*flags, f"--confidence={confidence}"], picture)
        for one in found if points_inside and len(own[0]) > 6 else []:
            one["keypoints"] = np.clip(one["keypoints"], 0, limits[:2])
        missing, more, edge, point = compare(title, picture, expected, found)
        self.good = (
            self.good and len(expected) > 0 and missing + more == 0 and max(edge, point) <= limit
        )


def yolo_letterbox(picture, side):
    from ultralytics.data.augment import LetterBox

    image = LetterBox((side, side), auto=False)(image=cv2.imread(picture))
    return torch.from_numpy(image[..., ::-1].transpose(2, 0, 1).copy())[None].float() / 255


def ultralytics(family):
    """The whole predictor of the package."""
    os.environ["YOLO_AUTOINSTALL"] = "false"
    from ultralytics import YOLO
    from ultralytics.nn.tasks import PoseModel

    side = 320
    images = torch.cat([yolo_letterbox(picture, side) for picture in family.pictures])
    names = "yolov5n yolov8n yolov9t yolo11n yolo12n yolov8n-p6 yolov10n yolo26n".split()
    for name in [*names, "yolov8n-pose", "yolo11n-pose", "yolo26n-pose"]:
        yolo = YOLO(f"{name}.yaml")
        if name.endswith("pose"):  # one class, as in the published ones
            yolo.model = PoseModel(f"{name}.yaml", nc=1, verbose=False)
        model = randomize(yolo.model, images)
        head = model.model[-1]
        wanted = {}
        for key in "cv2", "one2one_cv2":  # distances in strides, or their 16 logits
            for branch in getattr(head, key, None) or []:
                wanted[branch[-1]] = [(4, 1) if head.reg_max == 1 else (0, 1.5)] * branch[
                    -1
                ].out_channels
        for key in "cv3", "one2one_cv3":
            for branch in getattr(head, key, None) or []:
                wanted[branch[-1]] = [(-4, 1.2) if head.nc > 1 else (-3, 2)] * branch[
                    -1
                ].out_channels
        points = [*(getattr(head, "cv4", None) or []), *(getattr(head, "one2one_cv4", None) or [])]
        for conv in [
            *(getattr(head, "one2one_cv4_kpts", None) or []),
            *(branch[-1] for branch in points),
        ]:
            if isinstance(conv, torch.nn.Conv2d):
                wanted[conv] = [(0, 1), (0, 1), (3, 0.5)] * (conv.out_channels // 3)
        set_outputs(model, images, wanted)
        yolo.predictor = None
        flags = [*LETTERBOX, f"--head={'yolov8_pose' if head.nc == 1 and not head.end2end else ''}"]
        own = {}
        for picture in family.pictures:
            result = yolo.predict(
                picture, imgsz=side, rect=False, conf=LOW, verbose=False, device="cpu"
            )[0]
            rows = result.boxes.data.numpy()
            if result.keypoints is not None:
                rows = np.hstack(
                    [rows, result.keypoints.data[..., :2].reshape(len(rows), -1).numpy()]
                )
            own[picture] = rows.tolist()
        file = str(family.scratch / f"{name}.onnx")
        model = model.fuse(verbose=False)
        head = model.model[-1]
        head.export, head.format = True, "onnx"
        export(model, images[:1], file, ["output0"])
        for picture in family.pictures:
            family.compare(
                name, picture, own[picture], [f"--model={file}", *flags], points_inside=True
            )


def anchor_yolo(family, name, model, nms, scale, flags):
    """YOLOv5 and v7. Their scale_boxes ignores that letterbox rounds the sides of the resized
    picture: edges are up to a quarter of a pixel of the input away, 0.56 of the picture here."""
    side = 320
    images = torch.cat([yolo_letterbox(picture, side) for picture in family.pictures])
    model = randomize(model, images)
    head = model.model[-1]
    row = [(0, 1)] * 4 + [(-3, 1.5)] + [(-2, 2)] * head.nc
    set_outputs(model, images, {conv: row * head.na for conv in head.m})
    file = str(family.scratch / f"{name}.onnx")
    with torch.no_grad():
        outputs = [model(image[None])[0] for image in images]
        for picture, output in zip(family.pictures, outputs):
            rows = nms(output, conf_thres=LOW, iou_thres=0.45)[0]
            scale((side, side), rows[:, :4], cv2.imread(picture).shape)
            own = [*rows.tolist()]
            if not os.path.exists(file):
                export(Part(model).eval(), images[:1], file, ["output"])
            flags_ = [f"--model={file}", *LETTERBOX, *flags]
            family.compare(name, picture, own, flags_, limit=0.6)


class Part(torch.nn.Module):
    """The first output of a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)[0]


def yolov5(family):
    from models.yolo import DetectionModel
    from utils.general import non_max_suppression, scale_boxes

    for name, file in ("yolov5n", "yolov5n"), ("yolov5n6", "hub/yolov5n6"):
        model = DetectionModel(family.folder / f"models/{file}.yaml")
        anchor_yolo(family, name, model, non_max_suppression, scale_boxes, [])


def yolov7(family):
    from models.yolo import Model
    from utils.general import non_max_suppression, scale_coords

    config = family.folder / "cfg/deploy/yolov7-tiny.yaml"
    for classes, flags in (80, []), (1, ["--head=yolov7"]):
        name = f"yolov7-tiny, {classes}"
        model = Model(config, nc=classes)
        anchor_yolo(family, name, model, non_max_suppression, scale_coords, flags)


def retinaface(family):
    """At the size of each picture, as detect.py."""
    from data import cfg_mnet
    from layers.functions.prior_box import PriorBox
    from models.retinaface import RetinaFace
    from utils.box_utils import decode, decode_landm
    from utils.nms.py_cpu_nms import py_cpu_nms

    config = {**cfg_mnet, "pretrain": False}
    for picture in family.pictures:
        pixels = np.float32(cv2.imread(picture)) - (104, 117, 123)
        image = torch.from_numpy(np.float32(pixels.transpose(2, 0, 1)))[None]
        net = randomize(RetinaFace(cfg=config, phase="test"), image)
        wanted = {head.conv1x1: [(1.5, 1.5), (-1.5, 1.5)] * 2 for head in net.ClassHead}
        wanted |= {head.conv1x1: [(0, 1)] * 8 for head in net.BboxHead}
        wanted |= {head.conv1x1: [(0, 1)] * 20 for head in net.LandmarkHead}
        set_outputs(net, image, wanted)
        with torch.no_grad():
            offsets, scores, points = (output[0] for output in net(image))
        height, width = image.shape[2:]
        priors = PriorBox(config, image_size=(height, width)).forward()
        boxes = (
            decode(offsets, priors, config["variance"]) * torch.tensor([width, height] * 2)
        ).numpy()
        points = decode_landm(points, priors, config["variance"]) * torch.tensor(
            [width, height] * 5
        )
        scores = scores[:, 1].numpy()
        order = scores.argsort()[::-1][:5000]
        rows = np.hstack([boxes, scores[:, None], np.ones_like(scores)[:, None], points.numpy()])[
            order
        ]
        rows = rows[py_cpu_nms(rows[:, :5], 0.4)][:750]
        file = str(family.scratch / f"{Path(picture).stem}.onnx")
        export(net, image, file, ["boxes", "scores", "landmarks"])
        flags = [f"--model={file}", "--mean=104,117,123"]
        family.compare("retinaface", picture, rows.tolist(), flags)


def ultra_light(family):
    """The predictor of the repository, with its trained weights."""
    from vision.ssd.config.fd_config import define_img_size

    define_img_size(320)
    from vision.ssd.mb_tiny_fd import create_mb_tiny_fd, create_mb_tiny_fd_predictor
    from vision.ssd.mb_tiny_RFB_fd import create_Mb_Tiny_RFB_fd, create_Mb_Tiny_RFB_fd_predictor

    kinds = {
        "slim": (create_mb_tiny_fd, create_mb_tiny_fd_predictor),
        "RFB": (create_Mb_Tiny_RFB_fd, create_Mb_Tiny_RFB_fd_predictor),
    }
    for kind, (create, predictor_of) in kinds.items():
        net = create(2, is_test=True, device="cpu")
        net.load(family.folder / f"models/pretrained/version-{kind}-320.pth")
        predictor = predictor_of(net, candidate_size=1500, device="cpu")
        image = torch.zeros(1, 3, 240, 320)
        for decoded in True, False:
            net.is_test = decoded
            file = str(family.scratch / f"{kind}{decoded}.onnx")
            export(net if decoded else Raw(net).eval(), image, file, ["scores", "boxes"])
            net.is_test = True
            for picture in family.pictures:
                rgb = cv2.cvtColor(cv2.imread(picture), cv2.COLOR_BGR2RGB)
                boxes, labels, scores = predictor.predict(rgb, 750, 0.3)
                rows = [
                    [*b, s, k] for b, s, k in zip(boxes.tolist(), scores.tolist(), labels.tolist())
                ]
                flags = [f"--model={file}", "--rgb", "--mean=127", "--scale=0.0078125"]
                title = f"{kind}{' decoded' * decoded}"
                family.compare(title, picture, rows, flags, None if len(rows) > 40 else 0.6)


class Raw(torch.nn.Module):
    """The Ultra-Light detector without its decoding."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        scores, boxes = self.net(image)
        return scores.softmax(2), boxes


def centernet(family):
    """Pictures that are 512 pixels wide: warpAffine samples others at other places than resize."""
    sys.path.insert(0, str(family.folder / "src/lib"))
    from models.decode import ctdet_decode
    from models.networks.msra_resnet import PoseResNet, resnet_spec
    from utils.image import get_affine_transform
    from utils.post_process import ctdet_post_process

    side, classes = 512, 80
    mean, deviation = [0.408, 0.447, 0.470], [0.289, 0.274, 0.278]

    def blob_of(picture):
        image = cv2.imread(picture)
        height, width = image.shape[:2]
        center, scale = np.array([width / 2, height / 2], np.float32), max(height, width) * 1.0
        matrix = get_affine_transform(center, scale, 0, [side, side])
        image = cv2.warpAffine(image, matrix, (side, side), flags=cv2.INTER_LINEAR)
        image = ((image / 255.0 - mean) / deviation).astype(np.float32)
        return torch.from_numpy(image.transpose(2, 0, 1))[None], center, scale

    crops = family.crops(side, 340)
    images = torch.cat([blob_of(picture)[0] for picture in crops])
    model = PoseResNet(*resnet_spec[18], {"hm": classes, "wh": 2, "reg": 2}, head_conv=64)
    model = randomize(model, images)
    wanted = {model.hm[-1]: [(-4, 1)] * classes}
    wanted |= {model.wh[-1]: [(25, 8)] * 2, model.reg[-1]: [(0.5, 0.2)] * 2}
    set_outputs(model, images, wanted)
    flags = [
        "--pixel_range=1",
        f"--mean={','.join(map(str, mean))}",
        f"--std={','.join(map(str, deviation))}",
    ]
    for sigmoid, picture in itertools.product([False, True], crops):
        file = str(family.scratch / f"{sigmoid}.onnx")
        if not os.path.exists(file):
            export(Maps(model, sigmoid).eval(), images[:1], file, ["hm", "wh", "reg"])
        blob, center, scale = blob_of(picture)
        with torch.no_grad():
            out = model(blob)[-1]
            found = ctdet_decode(out["hm"].sigmoid(), out["wh"], reg=out["reg"], K=100).numpy()
        by_class = ctdet_post_process(found, [center], [scale], side // 4, side // 4, classes)[0]
        rows = [[*row, label - 1] for label in by_class for row in by_class[label]]
        title = f"centernet{' sigmoid' * sigmoid}"
        family.compare(
            title, picture, rows, [f"--model={file}", "--fit=letterbox", "--pad=0", *flags]
        )


class Maps(torch.nn.Module):
    """The outputs of a CenterNet, as its ports have them."""

    def __init__(self, model, sigmoid):
        super().__init__()
        self.model, self.sigmoid = model, sigmoid

    def forward(self, image):
        out = self.model(image)[-1]
        return out["hm"].sigmoid() if self.sigmoid else out["hm"], out["wh"], out["reg"]


ANCHORS = [(1.3, 1.7), (3.2, 4.0), (5.1, 8.1)]  # in cells of 32 pixels


def sides_of(version):
    """The anchors as text: YOLOv3 has pixels."""
    return [str(side * (32 if version == 3 else 1)) for anchor in ANCHORS for side in anchor]


class Darknet(torch.nn.Module):
    """Convolutions that halve the picture, and one more for each grid of boxes."""

    def __init__(self, classes, grids):
        super().__init__()
        sides = [3, 16, 32, 48, 64, 64]
        self.body = torch.nn.ModuleList(
            torch.nn.Conv2d(*pair, 3, stride=2, padding=1) for pair in itertools.pairwise(sides)
        )
        for conv in self.body:
            torch.nn.init.kaiming_normal_(conv.weight)
        self.heads = torch.nn.ModuleList(
            torch.nn.Conv2d(64, len(ANCHORS) * (5 + classes), 1) for _ in range(grids)
        )

    def forward(self, x):
        maps = []
        for conv in self.body:
            x = torch.nn.functional.leaky_relu(conv(x), 0.1)
            maps.append(x)
        return [head(x) for head, x in zip(self.heads, maps[:-3:-1])]

    def config(self, version, classes):
        """The text for darknet."""
        shared = f"classes={classes}\nnum={len(ANCHORS)}\nanchors={','.join(sides_of(version))}\n"
        kind = f"[yolo]\nmask=0,1,2\n{shared}" if version == 3 else f"[region]\nsoftmax=1\n{shared}"
        text = "[net]\nwidth=416\nheight=416\nchannels=3\n"
        for conv in self.body:
            text += f"[convolutional]\nfilters={conv.out_channels}\nsize=3\nstride=2\npad=1\n"
            text += "activation=leaky\n"
        for index, conv in enumerate(self.heads):
            text += "[route]\nlayers=3\n" * index
            text += f"[convolutional]\nfilters={conv.out_channels}\nsize=1\nstride=1\npad=0\n"
            text += f"activation=linear\n{kind}"
        return text

    def prototxt(self, version, classes):
        """The text for Crema."""
        text = 'input: "0" input_shape { dim: 1 dim: 3 dim: 416 dim: 416 }\n'
        conv_of = 'layer {{ name: "{}" type: "Convolution" bottom: "{}" top: "{}"\n'
        conv_of += "convolution_param {{ num_output: {} kernel_size: {} }} }}\n"
        for i, conv in enumerate(self.body, 1):
            text += conv_of.format(i, i - 1, i, conv.out_channels, "3 stride: 2 pad: 1")
            text += f'layer {{ name: "relu{i}" type: "ReLU" bottom: "{i}" top: "{i}"\n'
            text += "relu_param { negative_slope: 0.1 } }\n"
        bottoms = ""
        for i, conv in enumerate(self.heads):
            text += conv_of.format(f"head{i}", 5 - i, f"head{i}", conv.out_channels, 1)
            bottoms += f'bottom: "head{i}" '
        biases = " ".join(f"biases: {side}" for side in sides_of(version))
        param = f"num_classes: {classes} num_box: {len(ANCHORS)} {biases}"
        name, field = "YoloDetectionOutput", "yolo"
        if version == 3:
            name, field = "Yolov3DetectionOutput", "yolov3"
            param += "".join(f" anchors_scale: {s} mask: 0 mask: 1 mask: 2" for s in (32, 16))
        text += f'layer {{ name: "out" type: "{name}" {bottoms} top: "out"\n'
        return text + f"{field}_detection_output_param {{ {param} }} }}\n"

    def write(self, version, classes, path):
        import crema

        path.with_suffix(".cfg").write_text(self.config(version, classes))
        path.with_suffix(".prototxt").write_text(self.prototxt(version, classes))
        net = crema.Net.open(str(path.with_suffix(".prototxt")), phase="TEST")
        names = [str(index) for index in range(1, 6)] + [
            f"head{index}" for index in range(len(self.heads))
        ]
        with path.with_suffix(".weights").open("wb") as file:
            file.write(np.array([0, 2, 0, 0, 0], np.int32).tobytes())
            for name, conv in zip(names, [*self.body, *self.heads]):
                for blob, values in zip(net.params[name], (conv.weight, conv.bias)):
                    blob.data[...] = values.detach().numpy()
                file.write(
                    conv.bias.detach().numpy().tobytes() + conv.weight.detach().numpy().tobytes()
                )
        net.save(str(path.with_suffix(".caffemodel")))


def darknet(family):
    """YOLOv2 and v3; several classes without NMS, as darknet gives a box several of them."""
    sys.path.insert(0, str(family.folder / "python"))
    import darknet as own

    crops = family.crops(416, 416)
    images = torch.cat([yolo_letterbox(picture, 416) for picture in crops])
    for version, classes in itertools.product((2, 3), (1, 20)):
        model = Darknet(classes, version - 1).eval()
        row = [(0, 1)] * 2 + [(0, 0.5)] * 2 + [(-2, 2)] + [(0, 3)] * classes
        set_outputs(model, images, {head: row * len(ANCHORS) for head in model.heads})
        path = family.scratch / f"yolov{version}_{classes}"
        model.write(version, classes, path)
        net = own.load_net(bytes(path.with_suffix(".cfg")), bytes(path.with_suffix(".weights")), 0)
        flags = [
            "--rgb",
            "--pixel_range=1",
            f"--model={path}.prototxt",
            f"--weights={path}.caffemodel",
        ]
        flags.append(f"--nms={0.45 if classes == 1 else 1}")
        for picture in crops:
            image = own.load_image(picture.encode(), 0, 0)
            own.predict_image(net, image)
            count = own.c_int(0)
            boxes = own.get_network_boxes(
                net, image.w, image.h, LOW, LOW, None, 0, own.pointer(count)
            )
            if classes == 1:
                own.do_nms_sort(boxes, count.value, 1, 0.45)
            rows = []
            for one in boxes[: count.value]:
                label = int(np.argmax(one.prob[:classes]))
                if one.prob[label] > 0:
                    b = one.bbox
                    edges = b.x - b.w / 2, b.y - b.h / 2, b.x + b.w / 2, b.y + b.h / 2
                    rows.append([*edges, one.prob[label], label + 1])
            family.compare(path.name, picture, rows, flags)


FAMILIES = ["ultralytics", "yolov5", "yolov7", "retinaface", "ultra_light", "centernet", "darknet"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("deploy")
    parser.add_argument("pictures", nargs="+")
    for name in FAMILIES[1:]:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--only", default=",".join(FAMILIES))
    args = parser.parse_args()
    bad, compared = [], 0
    for name in args.only.split(","):
        folder = getattr(args, name, None)
        if not folder and name != "ultralytics":
            print(f"{name}: skipped, as --{name} is not given", flush=True)
            continue
        if name == "darknet":
            os.environ["LD_LIBRARY_PATH"] = str(folder)
        task = (name, folder, args.deploy, args.pictures)
        process = multiprocessing.get_context("spawn").Process(target=Family, args=task)
        compared += 1
        process.start()
        process.join()
        if process.exitcode:
            bad.append(name)
    if bad or not compared:
        sys.exit(f"differ: {', '.join(bad)}" if bad else "nothing was compared")


if __name__ == "__main__":
    main()
