// Accuracy: the fraction of items whose label is among the top_k best scores. An item is correct if
// fewer than top_k other classes score at least as high as its label, so ties count against it. As
// in Caffe, an item whose own score is NaN is correct. Output 0 is (correct items) / (counted
// items), 0 without any; output 1, if present, is the same for each class (0 for absent classes).
// No gradient.
#include <algorithm>
#include <optional>
#include <span>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/labels.h"
#include "math/softmax.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest scores per thread

// Counts of one class.
struct Tally {
  int64_t items;
  int64_t right;
};

template <typename T>
bool IsRight(const T* scores, int64_t stride, int64_t classes, int64_t label, int64_t top_k) {
  const T own = scores[label * stride];
  int64_t better = -1;  // excludes the label's own score, which the loop counts
  for (int64_t c = 0; c < classes && better < top_k; ++c) better += scores[c * stride] >= own;
  return better < top_k;
}

class Accuracy final : public Layer {
 public:
  explicit Accuracy(const LayerParameter& param)
      : Layer(param), top_k_(param.accuracy_param().top_k()) {
    if (top_k_ == 0) FailField(*this, "accuracy_param.top_k", "top_k is 0, expected 1 or more");
    if (param.accuracy_param().has_ignore_label()) {
      ignored_ = param.accuracy_param().ignore_label();
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& scores = context.inputs[0];
    const SoftmaxSize sizes = SizesOf(scores.shape);
    CheckLabelShape(*this, scores.shape, sizes, context.inputs[1].shape, false);
    if (top_k_ > sizes.classes) {
      FailField(*this, "accuracy_param.top_k",
                StrCat("top_k is ", top_k_, ", but there are only ", sizes.classes, " classes"));
    }
    LayerInfo info;
    info.outputs = {{Shape{}, scores.dtype}};
    if (context.output_count > 1) info.outputs.push_back({Shape{sizes.classes}, scores.dtype});
    info.gradient_forbidden = {true, true};
    return info;
  }

  // A tally for each class, then a flag for each item.
  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    const SoftmaxSize sizes = SizesOf(context.inputs[0].shape);
    return static_cast<size_t>(sizes.classes) * sizeof(Tally) +
           static_cast<size_t>(sizes.outer * sizes.inner);
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize sizes = SizesOf(args.inputs[0].shape());
    const int64_t counted =
        CheckLabels(*this, args.inputs[1],
                    {.classes = sizes.classes, .inner = sizes.inner, .ignored = ignored_});
    const std::span<Tally> tallies(reinterpret_cast<Tally*>(args.scratch.data()),
                                   static_cast<size_t>(sizes.classes));
    uint8_t* const right = reinterpret_cast<uint8_t*>(tallies.data() + tallies.size());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* labels = args.inputs[1].data<T>();
      Judge(args.context.threads(), sizes, args.inputs[0].data<T>(), labels, right);
      std::ranges::fill(tallies, Tally{0, 0});
      int64_t total = 0;
      for (int64_t at = 0; at < sizes.outer * sizes.inner; ++at) {
        if (IsIgnored(labels[at])) continue;
        Tally& tally = tallies[static_cast<size_t>(labels[at])];
        ++tally.items;
        tally.right += right[at];
        total += right[at];
      }
      args.outputs[0].data<T>()[0] = Ratio<T>(total, counted);
      if (args.outputs.size() < 2) return;
      T* share = args.outputs[1].data<T>();
      for (const Tally& tally : tallies) *share++ = Ratio<T>(tally.right, tally.items);
    });
  }

 private:
  template <typename T>
  static T Ratio(int64_t right, int64_t items) {
    return items == 0 ? T(0) : static_cast<T>(static_cast<double>(right) / double(items));
  }

  template <typename T>
  bool IsIgnored(T label) const {
    return ignored_ && label == static_cast<T>(*ignored_);
  }

  template <typename T>
  void Judge(int threads, const SoftmaxSize& sizes, const T* scores, const T* labels,
             uint8_t* right) const {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, sizes.classes));
    ParallelFor(threads, sizes.outer * sizes.inner, grain, [&](int64_t b, int64_t e, int) {
      for (int64_t at = b; at < e; ++at) {
        if (IsIgnored(labels[at])) continue;
        const T* first = scores + at / sizes.inner * sizes.classes * sizes.inner + at % sizes.inner;
        right[at] = IsRight(first, sizes.inner, sizes.classes, static_cast<int64_t>(labels[at]),
                            int64_t{top_k_});
      }
    });
  }

  SoftmaxSize SizesOf(const Shape& shape) const {
    return ClassSize(*this, shape, param().accuracy_param().axis(), "accuracy_param.axis");
  }

  const uint32_t top_k_;
  std::optional<int32_t> ignored_;
};

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {9, 5}};
  const SampleInput labels{.shape = {9}, .low = 0, .high = 4, .integer = true};
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels{.shape = {2, 3, 5}, .low = 0, .high = 3, .integer = true};
  std::vector<LayerSample> samples = {
      {.name = "rows", .prototxt = "", .inputs = {rows, labels}},
      {.name = "top_3", .prototxt = "accuracy_param { top_k: 3 }", .inputs = {rows, labels}},
      {.name = "by_class", .prototxt = "", .inputs = {rows, labels}, .outputs = 2},
      {.name = "maps", .prototxt = "", .inputs = {maps, map_labels}, .outputs = 2},
      {.name = "ignore",
       .prototxt = "accuracy_param { ignore_label: 1 }",
       .inputs = {maps, map_labels},
       .outputs = 2},
      {.name = "last_axis",
       .prototxt = "accuracy_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {6}, .low = 0, .high = 3, .integer = true}}},
      {.name = "many_rows",
       .prototxt = "",
       .inputs = {{.shape = {2003, 7}}, {.shape = {2003}, .low = 0, .high = 6, .integer = true}}},
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {0}}},
       .outputs = 2},
  };
  for (LayerSample& sample : samples) sample.gradient = false;
  return samples;
}

}  // namespace

void RegisterAccuracy(Registry& registry) {
  LayerType type;
  type.name = "Accuracy";
  type.category = "metric";
  type.summary = "Share of items whose label is among the best scores.";
  type.formula = "accuracy = right / counted; right when #{k: x_k >= x_label} <= top_k";
  type.input_docs = {
      "scores: the K classes on axis accuracy_param.axis, any axes before and after it",
      "labels: one for each position, in any shape; whole numbers 0..K-1, or ignore_label"};
  type.output_docs = {"accuracy: scalar; 0 when no label counts",
                      "accuracy of each class: K values, 0 for classes without labels; optional"};
  type.differences = {
      "Labels that are not whole numbers, or outside the classes, are an error that names the "
      "item.",
      "Scores and labels have no gradient: a net that needs one is refused when it is planned."};
  type.param_fields = {"accuracy_param"};
  type.inputs = {2, 2};
  type.outputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Accuracy>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"accuracy_param { top_k: 0 }", {{4, 3}, {4}}, "top_k is 0"},
      {"accuracy_param { top_k: 4 }", {{4, 3}, {4}}, "top_k is 4, but there are only 3 classes"},
      {"", {{4, 3}, {5}}, "need 4 labels"},
      {"accuracy_param { axis: 2 }", {{4, 3}, {4}}, "axis 2 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
