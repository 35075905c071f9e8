"""ncnn on the CPU, without the 16-bit floats that it would take by itself; pnnx converts."""
import ncnn


def prepare(case):
    import pnnx
    import torch

    import torch_layers
    import torch_net

    net = torch_net.make(case)
    for layer in net.modules():
        if isinstance(layer, torch_layers.Attention):
            layer.spell_out_mask(case.blobs[0]["shape"][1])
    inputs = [x.long() if blob["integer"] else x
              for x, blob in zip(torch_net.input_tensors(case), case.blobs)]
    with torch.no_grad():
        pnnx.export(net, str(case.shared("ncnn.pt")), inputs=tuple(inputs), fp16=False)


class Race:
    def __init__(self, case):
        self.net = ncnn.Net()
        self.net.opt.num_threads = case.threads
        self.net.opt.use_vulkan_compute = False
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(self.net.opt, name, False)
        self.net.opt.use_bf16_storage = case.precision == "bf16"
        if (self.net.load_param(str(case.shared("ncnn.ncnn.param"))) != 0 or
                self.net.load_model(str(case.shared("ncnn.ncnn.bin"))) != 0):
            raise RuntimeError("ncnn does not know a layer of this net; its log has the name")
        self.inputs = [values.astype("int32") if blob["integer"] else values
                       for values, blob in zip(case.inputs(), case.blobs)]
        self.results = []

    def run(self):
        extractor = self.net.create_extractor()
        for name, values in zip(self.net.input_names(), self.inputs):
            extractor.input(name, ncnn.Mat(values, batch_index=0))
        self.results = [extractor.extract(name)[1] for name in self.net.output_names()]

    def outputs(self):
        return [mat.numpy(batch_index=0) for mat in self.results]


load = Race
