"""ncnn on the CPU; pnnx converts. A batch is its images one after the other, as ncnn has no batch."""
import ncnn
import numpy



def prepare(case):
    import pnnx
    import torch

    import torch_net

    net = torch_net.make(case)
    one = [x[:1] for x in torch_net.input_tensors(case)]
    with torch.no_grad():
        pnnx.export(net, str(case.shared("ncnn.pt")), inputs=tuple(one), fp16=False)


class Race:
    def __init__(self, case):
        self.net = ncnn.Net()
        self.net.opt.num_threads = case.threads
        self.net.opt.use_vulkan_compute = False
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(self.net.opt, name, False)
        self.net.opt.use_bf16_storage = case.precision == "bf16"
        for kind in ("param", "bin"):
            getattr(self.net, "load_" + ("param" if kind == "param" else "model"))(
                str(case.shared("ncnn.ncnn." + kind)))
        self.images = list(zip(*case.inputs()))
        self.names = list(zip(self.net.input_names(), range(len(self.images[0]))))
        self.results = []

    def run(self):
        self.results = []
        for image in self.images:
            extractor = self.net.create_extractor()
            for name, index in self.names:
                extractor.input(name, ncnn.Mat(image[index]))
            self.results.append([extractor.extract(name)[1] for name in self.net.output_names()])

    def outputs(self):
        return [numpy.stack([numpy.array(mat) for mat in mats]) for mats in zip(*self.results)]


load = Race
