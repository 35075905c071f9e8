// Embed: y[n] = W[index[n]] + b, with a learned row for each index below input_dim. dW[r] = sum of
// dy[n] over all n with index[n] = r; db = sum of dy. The index has no gradient.
#include <memory>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/indices.h"
#include "math/broadcast.h"

namespace crema {
namespace {

class Embed final : public Layer {
 public:
  explicit Embed(const LayerParameter& param)
      : Layer(param),
        rows_(param.embed_param().input_dim()),
        columns_(param.embed_param().num_output()) {
    if (columns_ == 0) {
      FailField(*this, "embed_param.num_output",
                "num_output is missing or 0; it is the length of a row");
    }
    if (rows_ == 0) {
      FailField(*this, "embed_param.input_dim",
                "input_dim is missing or 0; it is the number of rows");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& index = context.inputs[0].shape;
    if (index.axes() == Shape::kMaxAxes) {
      FailInputs(*this,
                 StrCat("the index has ", index.axes(), " axes already; the top has one more"));
    }
    std::vector<int64_t> dims(index.dims().begin(), index.dims().end());
    dims.push_back(columns_);
    const EmbedParameter& embed = param().embed_param();
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(index.axes());
    info.parameters.push_back({"weight", Shape{rows_, columns_}, embed.weight_filler()});
    if (embed.bias_term())
      info.parameters.push_back({"bias", Shape{columns_}, embed.bias_filler()});
    info.backward_reads_input = {true};
    info.gradient_forbidden = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    CheckIndices(*this, args.inputs[0], 0, rows_, "rows (input_dim)");
    const int threads = args.context.threads();
    const int64_t picked = args.inputs[0].count();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      GatherRows(threads, SizesOf(picked), args.inputs[0].data<T>(), args.parameters[0].data<T>(),
                 y);
      if (args.parameters.size() < 2) return;
      const auto add = [](T v, T, T bias) { return v + bias; };
      Broadcast(threads, {picked, columns_, 1}, add, y, y, y, args.parameters[1].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    CheckIndices(*this, args.inputs[0], 0, rows_, "rows (input_dim)");
    const int threads = args.context.threads();
    const int64_t picked = args.inputs[0].count();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      if (!args.parameter_grads[0].empty()) {
        ScatterAddRows(threads, SizesOf(picked), args.inputs[0].data<T>(), dy,
                       args.parameter_grads[0].data<T>());
      }
      if (args.parameter_grads.size() > 1 && !args.parameter_grads[1].empty()) {
        const auto first = [](T d, T) { return d; };
        AddBroadcastSums(threads, {picked, columns_, 1}, first, dy, dy,
                         args.parameter_grads[1].data<T>());
      }
    });
  }

 private:
  GatherSize SizesOf(int64_t picked) const { return {1, rows_, picked, columns_}; }

  const int64_t rows_;
  const int64_t columns_;
};

}  // namespace

void RegisterEmbed(Registry& registry) {
  LayerType type;
  type.name = "Embed";
  type.category = "arithmetic";
  type.summary = "A learned vector for each index of a vocabulary: word vectors.";
  type.formula = "y[n] = W[index[n]] + b";
  type.input_docs = {"index: whole numbers 0..input_dim-1, any shape; receives no gradient"};
  type.output_docs = {"y: the shape of index and one more axis of num_output"};
  type.parameter_docs = {"weight: input_dim x num_output", "bias: num_output; with bias_term only"};
  type.differences = {
      "An index outside 0..input_dim-1 is an error that names it; Caffe reads memory beyond the "
      "weight."};
  type.param_fields = {"embed_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Embed>(p); };
  const std::string fillers =
      " weight_filler { type: \"gaussian\" std: 0.5 } bias_filler { type: \"gaussian\" } }";
  const auto index = [](std::vector<int64_t> shape, double most) {
    return SampleInput{.shape = std::move(shape), .low = 0, .high = most, .integer = true};
  };
  type.samples = {
      {.name = "plain",
       .prototxt = "embed_param { input_dim: 7 num_output: 5" + fillers,
       .inputs = {index({4, 3}, 6)}},
      {.name = "no_bias",
       .prototxt = "embed_param { input_dim: 3 num_output: 4 bias_term: false" + fillers,
       .inputs = {index({6}, 2)}},
      {.name = "large",
       .prototxt = "embed_param { input_dim: 50 num_output: 1201" + fillers,
       .inputs = {index({40}, 49)}},
      {.name = "one_number",
       .prototxt = "embed_param { input_dim: 3 num_output: 2" + fillers,
       .inputs = {index({}, 2)}},
      {.name = "empty_batch",
       .prototxt = "embed_param { input_dim: 3 num_output: 2" + fillers,
       .inputs = {index({0, 3}, 2)}},
  };
  type.bad_samples = {
      {"embed_param { input_dim: 3 }", {{2}}, "num_output is missing or 0"},
      {"embed_param { num_output: 3 }", {{2}}, "input_dim is missing or 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
