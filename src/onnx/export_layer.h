// The argument of an emitter: one layer of a deploy net and the graph that it is written to.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "graph/layer.h"
#include "onnx/export_graph.h"

namespace crema {

// One layer that becomes nodes. Emitters read it and set `out`.
class LayerExport {
 public:
  LayerExport(OnnxGraphWriter* to, const Layer& from, const LayerInfo& inferred)
      : graph(*to), layer(from), param(from.param()), info(inferred) {}

  OnnxGraphWriter& graph;
  const Layer& layer;
  const LayerParameter& param;
  const LayerInfo& info;
  std::vector<std::string> in;   // values, by bottom
  std::vector<BlobSpec> specs;   // of the bottoms
  std::vector<std::string> out;  // to be set: values, by top
  // By bottom: axis 0 is not a constant of the graph (a batch of any size, rows whose number is
  // known only when the net runs). Other axes always are.
  std::vector<bool> open;
  std::vector<ConstTensorView> parameters;  // f32
  std::vector<std::string> parameter_keys;  // names, by parameter; equal ones are shared
  std::string rounded_weight;               // of an int8 layer, in place of parameter 0

  const Shape& shape(size_t i = 0) const { return specs[i].shape; }
  const Shape& out_shape(size_t o = 0) const { return info.outputs[o].shape; }
  bool is_open() const;  // one of the bottoms is

  // Throws kUnsupported about this layer.
  [[noreturn]] void Refuse(const std::string& why) const;

  // Shorthands for nodes.
  std::string Add(const char* type, std::vector<std::string> inputs,
                  const OnnxAttributes& attributes = {}) {
    return graph.Add(type, std::move(inputs), attributes);
  }
  // x * factor + shift; leaves out what changes nothing.
  std::string Affine(const std::string& x, double factor, double shift);
  std::string Activate(const std::string& x, bool on, double negative_slope);  // ReLU
  // Gives `x`, of shape `from` with the openness of `open`, the shape `to`.
  std::string Reshape(const std::string& x, const Shape& from, const Shape& to, bool open);
  std::string Reshape(const std::string& x, const Shape& to) {
    return Reshape(x, shape(), to, open[0]);
  }
  std::string Unsqueeze(const std::string& x, const std::vector<int64_t>& axes);
  std::string Squeeze(const std::string& x, const std::vector<int64_t>& axes);
  std::string Transpose(const std::string& x, const std::vector<int64_t>& order);
  // Elements [begin, end) of one axis.
  std::string Slice(const std::string& x, int axis, int64_t begin, int64_t end);
  std::string ToFloat(const std::string& x);
  std::string ToInt(const std::string& x);  // int64; the values are whole

  // Parameter `index` in its own dimensions, or in others with as many elements.
  std::string Parameter(size_t index) const;
  std::string Parameter(size_t index, const std::vector<int64_t>& dims) const;
  std::vector<float> Values(size_t index) const;

  // Runs the layer on zeros of these shapes, which must suit it, and returns output 0.
  std::vector<float> RunNative(const std::vector<Shape>& inputs) const;
};

std::vector<int64_t> DimsOf(const Shape& shape);
// {1, .., size, .., 1} with `axes` axes and the size on `axis`.
std::vector<int64_t> OnAxis(int axes, int axis, int64_t size);
// begin, begin + 1, ..., end - 1.
std::vector<int64_t> Range(int64_t begin, int64_t end);

using Emitter = std::function<void(LayerExport&)>;
using EmitterTable = std::map<std::string, Emitter, std::less<>>;

// Add the emitters of a topic, by layer type (export_<topic>.cc).
void AddActivationEmitters(EmitterTable* table);
void AddArithmeticEmitters(EmitterTable* table);
void AddAttentionEmitters(EmitterTable* table);
void AddConvolutionEmitters(EmitterTable* table);
void AddDetectionEmitters(EmitterTable* table);
void AddElementEmitters(EmitterTable* table);
void AddIndexingEmitters(EmitterTable* table);
void AddNormalizationEmitters(EmitterTable* table);
void AddPoolingEmitters(EmitterTable* table);
void AddRecurrentEmitters(EmitterTable* table);
void AddRegionEmitters(EmitterTable* table);
void AddSamplingEmitters(EmitterTable* table);
void AddShapeEmitters(EmitterTable* table);

// All of them. The emitter of a type that cannot be exported refuses with the reason.
const EmitterTable& Emitters();

}  // namespace crema
