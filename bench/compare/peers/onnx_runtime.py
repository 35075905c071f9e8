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
        self.session = onnxruntime.InferenceSession(str(case.shared("net.onnx")), options,
                                                    providers=["CPUExecutionProvider"])
        names = [x.name for x in self.session.get_inputs()]
        self.inputs = dict(zip(names, case.inputs()))
        self.results = []

    def run(self):
        self.results = self.session.run(None, self.inputs)

    def outputs(self):
        return self.results


load = Race
