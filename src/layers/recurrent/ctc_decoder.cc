// Decoders of CTC. CTCGreedyDecoder takes the class of the largest score of each step, merges equal
// classes of adjacent steps and drops blanks. CTCBeamSearchDecoder looks for the sequence that is
// most probable over all paths that give it. ctc_decoder.h has both searches.
#include "layers/recurrent/ctc_decoder.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/scratch.h"

namespace crema {
namespace {

template <typename Search>
class CTCDecoder final : public Layer {
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
    const Search search(*this, scores);
    if (search.blank >= search.classes) {
      FailField(
          *this, "ctc_decoder_param.blank_index",
          StrCat("blank_index is ", search.blank, ", but there are ", search.classes, " classes"));
    }
    const size_t most = context.inputs.size() == 3 ? 3 : 2;
    if (context.output_count > most) {
      FailInputs(*this, "a top for the accuracy needs a third bottom, the target sequences");
    }
    const DType dtype = context.inputs[0].dtype;
    LayerInfo info;
    info.outputs = {{Shape{search.items, search.steps, 1, 1}, dtype}};
    if (HasScores(context.inputs.size(), context.output_count)) {
      info.outputs.push_back({Shape{search.items, 1, 1, 1}, dtype});
    }
    if (info.outputs.size() < context.output_count) info.outputs.push_back({Shape{1}, dtype});
    info.gradient_forbidden.assign(context.inputs.size(), true);
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const Search search(*this, context.inputs[0].shape);
    const int workers = ParallelWorkers(threads, search.items, 1);
    return ScratchBytes<std::byte>(workers * search.WorkBytes()) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const Search search(*this, args.inputs[0].shape());
    const bool has_scores = HasScores(args.inputs.size(), args.outputs.size());
    const int threads = args.context.threads();
    const int64_t each = search.WorkBytes();
    std::byte* work = ScratchCutter(args.scratch)
                          .Take<std::byte>(ParallelWorkers(threads, search.items, 1) * each);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      T* score = has_scores ? args.outputs[1].data<T>() : nullptr;
      ParallelFor(threads, search.items, 1, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t n = begin; n < end; ++n) {
          search.Decode(args.inputs[0].data<T>(), args.inputs[1].data<T>(), n, work + worker * each,
                        y, score);
        }
      });
      if (args.outputs.size() == (has_scores ? size_t{2} : size_t{1})) return;
      args.outputs.back().data<T>()[0] =
          static_cast<T>(search.Accuracy(y, args.inputs[2].data<T>()));
    });
  }

 private:
  // Two tops are sequences and accuracy if there are targets.
  static bool HasScores(size_t inputs, size_t outputs) {
    return outputs == 3 || (outputs == 2 && inputs == 2);
  }
};

// Returns a type with the texts and samples of both decoders. The samples have these fields.
template <typename Search>
LayerType DecoderType(const std::string& name, const std::string& fields) {
  LayerType type;
  type.name = name;
  type.category = "recurrent";
  type.input_docs = {"", "indicators: T x N; 0 after the first step ends a sequence",
                     "targets: T x N classes, negative after the end, for the accuracy"};
  type.output_docs = {"y: N x T x 1 x 1", "",
                      "accuracy: 1, the share of sequences that equal their targets; the last top "
                      "with targets"};
  type.differences = {
      "A sequence that only begins with its target does not count as equal; in the fork it does."};
  type.param_fields = {"ctc_decoder_param"};
  type.inputs = {2, 3};
  type.outputs = {1, 3};
  type.make = [](const LayerParameter& p) { return std::make_unique<const CTCDecoder<Search>>(p); };
  const SampleInput scores{.shape = {7, 3, 4}, .distinct = true};
  const SampleInput indicators{.shape = {7, 3}, .low = 0, .high = 1, .integer = true};
  const SampleInput targets{.shape = {7, 3}, .low = -1, .high = 3, .integer = true};
  const auto sample = [&](const std::string& text, std::vector<SampleInput> inputs, int outputs,
                          const std::string& more = "") {
    const std::string all = StrCat(fields, fields.empty() || more.empty() ? "" : " ", more);
    return LayerSample{.name = text,
                       .prototxt = all.empty() ? "" : StrCat("ctc_decoder_param { ", all, " }"),
                       .inputs = std::move(inputs),
                       .outputs = outputs,
                       .gradient = false};
  };
  type.samples = {
      sample("typical", {scores, indicators}, 1),
      sample("scores", {scores, indicators}, 2),
      sample("blank_first", {scores, indicators}, 1, "blank_index: 0 ctc_merge_repeated: false"),
      sample("accuracy", {scores, indicators, targets}, 2),
      sample("all", {scores, indicators, targets}, 3),
      sample("empty_batch", {{.shape = {4, 0, 3}}, {.shape = {4, 0}}}, 1),
  };
  type.bad_samples = {
      {"", {{7, 3}, {7, 3}}, "time x batch x classes"},
      {"", {{7, 3, 4}, {3, 7}}, "7 x 3"},
      {"ctc_decoder_param { blank_index: 4 }", {{7, 3, 4}, {7, 3}}, "blank_index is 4"},
      {"", {{7, 3, 4}, {7, 3}}, "a third bottom", 3},
  };
  return type;
}

}  // namespace

CtcSequences::CtcSequences(const Layer& layer, const Shape& scores)
    : steps(scores[0]), items(scores[1]), classes(scores[2]) {
  const CTCDecoderParameter& p = layer.param().ctc_decoder_param();
  blank = p.blank_index() < 0 ? classes - 1 : p.blank_index();
  merges = p.ctc_merge_repeated();
}

CtcGreedy::CtcGreedy(const Layer& layer, const Shape& scores) : CtcSequences(layer, scores) {
  if (!layer.param().ctc_decoder_param().has_beam_width()) return;
  FailField(layer, "ctc_decoder_param.beam_width",
            "this decoder keeps one class of each step; use type 'CTCBeamSearchDecoder'");
}

CtcBeam::CtcBeam(const Layer& layer, const Shape& scores)
    : CtcSequences(layer, scores), width(layer.param().ctc_decoder_param().beam_width()) {
  if (width == 0 || width > std::numeric_limits<int32_t>::max() / (steps + 1)) {
    FailField(layer, "ctc_decoder_param.beam_width",
              StrCat("beam_width is ", width, ", expected 1 or more, and less than 2^31 after ",
                     "multiplication with the ", steps, " steps"));
  }
}

void RegisterCTCGreedyDecoder(Registry& registry) {
  LayerType type = DecoderType<CtcGreedy>("CTCGreedyDecoder", "");
  type.summary = "The best class of each step, without blanks and repetitions.";
  type.formula =
      "y[n] = argmax of the steps of sequence n, equal neighbours merged, then without "
      "blanks, and -1 after the end";
  type.input_docs[0] = "scores: T x N x C, probabilities or logits";
  type.output_docs[1] =
      "score: N x 1 x 1 x 1, the negative sum of the largest scores; with targets, only the second "
      "of three tops";
  type.origin = "CTC ports";
  type.bad_samples.push_back(
      {"ctc_decoder_param { beam_width: 3 }", {{7, 3, 4}, {7, 3}}, "'CTCBeamSearchDecoder'"});
  registry.Add(std::move(type));
}

void RegisterCTCBeamSearchDecoder(Registry& registry) {
  LayerType type = DecoderType<CtcBeam>("CTCBeamSearchDecoder", "beam_width: 3");
  type.summary = "The most probable sequence without blanks and repetitions, by a prefix search.";
  type.formula =
      "y[n] = the sequence with the largest sum of the probabilities of all paths that give it, of "
      "the beam_width best ones at each step; -1 after the end";
  type.input_docs[0] =
      "scores: T x N x C, logits or logarithms of probabilities; not what a Softmax computed";
  type.output_docs[1] =
      "score: N x 1 x 1 x 1, the negative logarithm of the probability of y; with targets, only "
      "the second of three tops";
  type.differences.insert(
      type.differences.end(),
      {"Scores are normalised, which changes nothing if they are logarithms of probabilities.",
       "The fork always keeps 10 sequences and always merges repetitions. It goes on adding paths "
       "to sequences that have left the beam."});
  type.origin = "OpenVINO training toolbox";
  for (const char* width : {"0", "400000000"}) {
    type.bad_samples.push_back({StrCat("ctc_decoder_param { beam_width: ", width, " }"),
                                {{7, 3, 4}, {7, 3}},
                                StrCat("beam_width is ", width)});
  }
  registry.Add(std::move(type));
}

}  // namespace crema
