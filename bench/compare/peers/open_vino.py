"""OpenVINO's CPU device, set for latency."""
import openvino



def prepare(case):
    import onnx_export  # PyTorch is for preparing only

    path = str(onnx_export.export(case))
    if case.onnx:
        model = openvino.convert_model(path, input={
            name: list(values.shape) for name, values in zip(case.input_names(), case.inputs())})
    else:
        model = openvino.convert_model(path)
    openvino.save_model(model, case.shared("openvino.xml"), compress_to_fp16=False)


class Race:
    """`more` are further properties of the compiled model."""

    def __init__(self, case, **more):
        model = openvino.compile_model(str(case.shared("openvino.xml")), "CPU", {
            "INFERENCE_NUM_THREADS": case.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[case.precision],
            **more,
        })
        self.request = model.create_infer_request()
        named = dict(zip(case.input_names(), case.inputs()))
        for index, values in enumerate(case.inputs()):
            if case.onnx:
                port = model.input(index)
                values = named[port.any_name].astype(port.element_type.to_dtype())
            self.request.set_input_tensor(index, openvino.Tensor(values))
        names = [output.any_name for output in model.outputs]
        self.order = sorted(range(len(names)), key=names.__getitem__)

    def run(self):
        self.request.infer()

    def outputs(self):
        return [self.request.get_output_tensor(i).data for i in self.order]


load = Race
