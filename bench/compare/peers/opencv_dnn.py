"""OpenCV's dnn module."""
import cv2



def prepare(case):
    import onnx_export  # PyTorch is for preparing only

    onnx_export.export(case)


class Race:
    def __init__(self, case):
        cv2.setNumThreads(case.threads)
        self.net = cv2.dnn.readNetFromONNX(str(case.shared("net.onnx")))
        self.inputs = case.inputs()
        self.names = self.net.getUnconnectedOutLayersNames()
        self.results = []

    def run(self):
        for index, values in enumerate(self.inputs):
            self.net.setInput(values, f"input{index}")
        self.results = self.net.forward(self.names)

    def outputs(self):
        return self.results


load = Race
