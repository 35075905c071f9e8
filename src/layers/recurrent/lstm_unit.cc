// LSTMUnit: one step of Caffe's LSTM without its weights.
//   [i f o g] = x, i, f, o: sigmoid, g: tanh;  c = f (cont c') + i g,  h = o tanh(c)
// Saved for backward: the activated gates.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/recurrent/for_rows.h"
#include "layers/recurrent/lstm_cell.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 10;  // fewest elements of c per thread

class LSTMUnit final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& c = context.inputs[0].shape;
    const Shape& x = context.inputs[1].shape;
    const Shape& cont = context.inputs[2].shape;
    if (c.axes() != 3 || c[0] != 1) {
      FailInputs(*this,
                 StrCat("the cell state must be 1 x streams x size, but it is ", ToString(c)));
    }
    if (x != Shape({1, c[1], 4 * c[2]})) {
      FailInputs(*this,
                 StrCat("the gates must be ", ToString(Shape({1, c[1], 4 * c[2]})),
                        ", 4 for each element of the cell state, but they are ", ToString(x)));
    }
    if (cont != Shape({1, c[1]})) {
      FailInputs(*this, StrCat("cont must be ", ToString(Shape({1, c[1]})), ", but it is ",
                               ToString(cont)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0], context.inputs[0]};
    info.saved = {context.inputs[1]};
    info.backward_reads_input = {true, false, true};
    info.backward_reads_output = {true};
    info.gradient_forbidden = {false, false, true};
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    const int64_t count = context.inputs[1].shape.count();
    return kScratchSlack + (context.dtype == DType::kF32 ? ScratchBytes<float>(count)
                                                         : ScratchBytes<double>(count));
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int64_t size = shape[2];
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* before = args.inputs[0].data<T>();
      const T* x = args.inputs[1].data<T>();
      const T* cont = args.inputs[2].data<T>();
      T* c = args.outputs[0].data<T>();
      T* h = args.outputs[1].data<T>();
      T* gates = args.saved[0].empty() ? ScratchCutter(args.scratch).Take<T>(4 * shape.count())
                                       : args.saved[0].data<T>();
      ForRows(args.context.threads(), shape[1], size, kGrain,
              [&](int64_t n, int64_t begin, int64_t end) {
                LstmRowForward<T>(size, begin, end, x + n * 4 * size, before + n * size, cont[n],
                                  gates + n * 4 * size, c + n * size, h + n * size);
              });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int64_t size = shape[2];
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* before = args.inputs[0].data<T>();
      const T* cont = args.inputs[2].data<T>();
      const T* gates = args.saved[0].data<T>();
      const T* c = args.outputs[0].data<T>();
      const T* dc = args.output_grads[0].data<T>();
      const T* dh = args.output_grads[1].data<T>();
      T* dbefore = args.input_grads[0].empty() ? nullptr : args.input_grads[0].data<T>();
      T* dx = args.input_grads[1].empty() ? nullptr : args.input_grads[1].data<T>();
      ForRows(args.context.threads(), shape[1], size, kGrain,
              [&](int64_t n, int64_t begin, int64_t end) {
                LstmRowBackward<T>(size, begin, end, gates + n * 4 * size, c + n * size,
                                   before + n * size, cont[n], dc + n * size, dh + n * size,
                                   dx == nullptr ? nullptr : dx + n * 4 * size,
                                   dbefore == nullptr ? nullptr : dbefore + n * size);
              });
    });
  }
};

}  // namespace

void RegisterLSTMUnit(Registry& registry) {
  LayerType type;
  type.name = "LSTMUnit";
  type.category = "recurrent";
  type.summary = "One step of an LSTM without weights, for nets that unroll time themselves.";
  type.formula = "[i f o g] = x, i f o: sigmoid, g: tanh; c = f (cont c') + i g; h = o tanh(c)";
  type.input_docs = {"c': 1 x N x D, the cell state of the step before",
                     "x: 1 x N x 4D, the gates before their activations, in the order i, f, o, g",
                     "cont: 1 x N, a factor on c': 0 where a sequence begins. Gets no gradient"};
  type.output_docs = {"c: 1 x N x D, the new cell state", "h: 1 x N x D, the new hidden state"};
  type.differences = {
      "The gradient is right for every value of cont; Caffe's on the CPU is for 0 and 1 only."};
  type.inputs = {3, 3};
  type.outputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const LSTMUnit>(p); };
  const SampleInput state{.shape = {1, 3, 4}};
  const SampleInput gates{.shape = {1, 3, 16}, .low = -2, .high = 2};
  type.samples = {
      {.name = "plain",
       .prototxt = "",
       .inputs = {state, gates, {.shape = {1, 3}, .low = 0, .high = 1, .integer = true}},
       .outputs = 2},
      {.name = "cont_between_0_and_1",
       .prototxt = "",
       .inputs = {state, gates, {.shape = {1, 3}, .low = 0, .high = 1}},
       .outputs = 2},
      {.name = "many_streams",
       .prototxt = "",
       .inputs = {{.shape = {1, 750, 3}},
                  {.shape = {1, 750, 12}},
                  {.shape = {1, 750}, .low = 0, .high = 1, .integer = true}},
       .outputs = 2},
      {.name = "no_streams",
       .prototxt = "",
       .inputs = {{.shape = {1, 0, 4}}, {.shape = {1, 0, 16}}, {.shape = {1, 0}}},
       .outputs = 2},
  };
  type.bad_samples = {
      {"", {{2, 3, 4}, {2, 3, 16}, {2, 3}}, "1 x streams x size", 2},
      {"", {{1, 3, 4}, {1, 3, 12}, {1, 3}}, "1x3x16", 2},
      {"", {{1, 3, 4}, {1, 3, 16}, {3}}, "cont must be 1x3", 2},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
