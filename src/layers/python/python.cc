// Python: the layer type.
#include "graph/registry.h"
#include "layers/python/python_layers.h"

namespace crema {

void RegisterPython(Registry& registry) {
  LayerType type;
  type.name = "Python";
  type.category = "python";
  type.summary =
      "A layer that a Python class computes: see [layers in Python](python.md#layers-in-python).";
  type.formula = "y = forward(x)";
  type.input_docs = {"x: as many as the class takes"};
  type.output_docs = {"y: as many as the class gives"};
  type.differences = {
      "Commands load Python for the first such layer. They must use the same library as the Python "
      "package."};
  type.param_fields = {"python_param"};
  type.unread_fields = {"python_param.share_in_parallel"};  // a net has one object of each layer
  type.inputs = {.min = 0, .max = Arity::kAny};
  type.outputs = {.min = 0, .max = Arity::kAny};
  type.example =
      "bottom: \"x\"\ntop: \"y\"\n"
      "python_param { module: \"mylayers\" layer: \"Times\" param_str: \"10\" }";
  type.make = MakePythonLayer;
  registry.Add(std::move(type));
}

}  // namespace crema
