// ContinuationIndicator: 0 for the first step of each sequence, and 1 for the others, as RNN, LSTM
// and GRU read them.
#include <algorithm>
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

class ContinuationIndicator final : public Layer {
 public:
  explicit ContinuationIndicator(const LayerParameter& param) : Layer(param) {
    const ContinuationIndicatorParameter& p = param.continuation_indicator_param();
    if (p.time_step() == 0) {
      FailField(*this, "continuation_indicator_param.time_step",
                "time_step is missing or 0; it is the number of steps");
    }
    if (p.batch_size() == 0) {
      FailField(*this, "continuation_indicator_param.batch_size",
                "batch_size is missing or 0; it is the number of sequences");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const ContinuationIndicatorParameter& p = param().continuation_indicator_param();
    LayerInfo info;
    info.outputs = {{Shape{p.time_step(), p.batch_size()}, context.dtype}};
    info.constant = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const int64_t count = args.outputs[0].count(), sequences = args.outputs[0].shape()[1];
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      std::fill(y, y + sequences, T(0));
      std::fill(y + sequences, y + count, T(1));
    });
  }
};

}  // namespace

void RegisterContinuationIndicator(Registry& registry) {
  LayerType type;
  type.name = "ContinuationIndicator";
  type.category = "input";
  type.summary = "Marks the first steps of sequences, for recurrent layers.";
  type.formula = "y[t, n] = 0 for t = 0, else 1";
  type.output_docs = {"y: time_step x batch_size"};
  type.origin = "CTC ports";
  type.param_fields = {"continuation_indicator_param"};
  type.inputs = {0, 0};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const ContinuationIndicator>(p);
  };
  const auto sample = [](std::string name, const std::string& fields) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "continuation_indicator_param { " + fields + " }",
                       .inputs = {},
                       .gradient = false};
  };
  type.samples = {sample("typical", "time_step: 5 batch_size: 2"),
                  sample("one_step", "time_step: 1 batch_size: 3")};
  type.bad_samples = {
      {"continuation_indicator_param { batch_size: 2 }", {}, "time_step is missing"},
      {"continuation_indicator_param { time_step: 2 }", {}, "batch_size is missing"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
