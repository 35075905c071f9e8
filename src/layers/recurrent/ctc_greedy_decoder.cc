// CTCGreedyDecoder: the class of the largest score of each step, where equal classes of adjacent
// steps are merged and blanks are dropped.
#include "layers/recurrent/ctc_greedy_decoder.h"

#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

class CTCGreedyDecoder final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& scores = context.inputs[0].shape;
    if (scores.axes() != 3 || scores[2] == 0) {
      FailInputs(*this,
                 StrCat("scores must be time x batch x classes, but they are ", ToString(scores)));
    }
    for (size_t i = 1; i < context.inputs.size(); ++i) {
      const Shape& shape = context.inputs[i].shape;
      if (shape.axes() >= 2 && shape[0] == scores[0] && shape.count(1) == scores[1]) continue;
      FailInputs(*this, StrCat("bottom ", i, " must be time x batch, ", scores[0], " x ", scores[1],
                               ", but it is ", ToString(shape)));
    }
    const CtcGreedy greedy(*this, scores);
    if (greedy.blank >= greedy.classes) {
      FailField(
          *this, "ctc_decoder_param.blank_index",
          StrCat("blank_index is ", greedy.blank, ", but there are ", greedy.classes, " classes"));
    }
    const size_t most = context.inputs.size() == 3 ? 3 : 2;
    if (context.output_count > most) {
      FailInputs(*this, "a top for the accuracy needs a third bottom, the target sequences");
    }
    const DType dtype = context.inputs[0].dtype;
    LayerInfo info;
    info.outputs = {{Shape{greedy.items, greedy.steps, 1, 1}, dtype}};
    if (HasScores(context.inputs.size(), context.output_count)) {
      info.outputs.push_back({Shape{greedy.items, 1, 1, 1}, dtype});
    }
    if (info.outputs.size() < context.output_count) info.outputs.push_back({Shape{1}, dtype});
    info.gradient_forbidden.assign(context.inputs.size(), true);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const CtcGreedy greedy(*this, args.inputs[0].shape());
    const bool has_scores = HasScores(args.inputs.size(), args.outputs.size());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      T* score = has_scores ? args.outputs[1].data<T>() : nullptr;
      ParallelFor(args.context.threads(), greedy.items, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) {
          greedy.Decode(args.inputs[0].data<T>(), args.inputs[1].data<T>(), n, y, score);
        }
      });
      if (args.outputs.size() == (has_scores ? size_t{2} : size_t{1})) return;
      args.outputs.back().data<T>()[0] =
          static_cast<T>(greedy.Accuracy(y, args.inputs[2].data<T>()));
    });
  }

 private:
  // Two tops are sequences and accuracy if there are targets.
  static bool HasScores(size_t inputs, size_t outputs) {
    return outputs == 3 || (outputs == 2 && inputs == 2);
  }
};

}  // namespace

CtcGreedy::CtcGreedy(const Layer& layer, const Shape& scores)
    : steps(scores[0]), items(scores[1]), classes(scores[2]) {
  const CTCDecoderParameter& p = layer.param().ctc_decoder_param();
  blank = p.blank_index() < 0 ? classes - 1 : p.blank_index();
  merges = p.ctc_merge_repeated();
}

void RegisterCTCGreedyDecoder(Registry& registry) {
  LayerType type;
  type.name = "CTCGreedyDecoder";
  type.category = "recurrent";
  type.summary = "The best class of each step, without blanks and repetitions.";
  type.formula =
      "y[n] = argmax of the steps of sequence n, equal neighbours merged, then without "
      "blanks, and -1 after the end";
  type.input_docs = {"scores: T x N x C, probabilities or logits",
                     "indicators: T x N; 0 after the first step ends a sequence",
                     "targets: T x N classes, negative after the end, for the accuracy"};
  type.output_docs = {"y: N x T x 1 x 1",
                      "score: N x 1 x 1 x 1, the negative sum of the largest scores; with targets, "
                      "only the second of three tops",
                      "accuracy: 1, the share of sequences that equal their targets; the last top "
                      "with targets"};
  type.differences = {
      "A sequence that only begins with its target does not count as equal; in the fork it does."};
  type.origin = "CTC ports";
  type.param_fields = {"ctc_decoder_param"};
  type.inputs = {2, 3};
  type.outputs = {1, 3};
  type.make = [](const LayerParameter& p) { return std::make_unique<const CTCGreedyDecoder>(p); };
  const SampleInput scores{.shape = {7, 3, 4}, .distinct = true};
  const SampleInput indicators{.shape = {7, 3}, .low = 0, .high = 1, .integer = true};
  const SampleInput targets{.shape = {7, 3}, .low = -1, .high = 3, .integer = true};
  type.samples = {
      {.name = "typical", .inputs = {scores, indicators}, .gradient = false},
      {.name = "scores", .inputs = {scores, indicators}, .outputs = 2, .gradient = false},
      {.name = "blank_first",
       .prototxt = "ctc_decoder_param { blank_index: 0 ctc_merge_repeated: false }",
       .inputs = {scores, indicators},
       .gradient = false},
      {.name = "accuracy",
       .inputs = {scores, indicators, targets},
       .outputs = 2,
       .gradient = false},
      {.name = "all", .inputs = {scores, indicators, targets}, .outputs = 3, .gradient = false},
      {.name = "empty_batch",
       .inputs = {{.shape = {4, 0, 3}}, {.shape = {4, 0}}},
       .gradient = false},
  };
  type.bad_samples = {
      {"", {{7, 3}, {7, 3}}, "time x batch x classes"},
      {"", {{7, 3, 4}, {3, 7}}, "7 x 3"},
      {"ctc_decoder_param { blank_index: 4 }", {{7, 3, 4}, {7, 3}}, "blank_index is 4"},
      {"", {{7, 3, 4}, {7, 3}}, "a third bottom", 3},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
