"""OpenVINO's CPU device, set for latency."""
import openvino



def prepare(case):
    import onnx_export  # PyTorch is for preparing only

    model = openvino.convert_model(str(onnx_export.export(case)))
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
        for index, values in enumerate(case.inputs()):
            self.request.set_input_tensor(index, openvino.Tensor(values))
        self.count = len(model.outputs)

    def run(self):
        self.request.infer()

    def outputs(self):
        return [self.request.get_output_tensor(i).data for i in range(self.count)]


load = Race
