"""ONNX Runtime, its CPU provider."""
import onnxruntime



def prepare(case):
    import onnx_export  # PyTorch is for preparing only

    onnx_export.export(case)


class Race:
    def __init__(self, case):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = case.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(case.onnx or str(case.shared("net.onnx")),
                                                    options, providers=["CPUExecutionProvider"])
        inputs = self.session.get_inputs()
        if case.onnx:
            named = dict(zip(case.input_names(), case.inputs()))
            self.inputs = {
                x.name: named[x.name].astype("int64" if x.type == "tensor(int64)" else "float32")
                for x in inputs}
        else:
            self.inputs = dict(zip([x.name for x in inputs], case.inputs()))
        self.names = sorted(x.name for x in self.session.get_outputs())
        self.results = []

    def run(self):
        self.results = self.session.run(self.names, self.inputs)

    def outputs(self):
        return self.results


load = Race
