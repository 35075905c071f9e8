// InfogainLoss: p = softmax(scores), H a K x K matrix with a row for each label;
//   loss = -sum_i sum_c H[label_i, c] ln max(p_ic, 1e-20) / normalizer
//   dscores_ic = (p_ic sum_k H[label_i, k] - H[label_i, c]) * dloss / normalizer, 0 if ignored.
// H is the third bottom, or comes from a BlobProto file.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/loss_type.h"
#include "layers/loss/softmax_loss.h"

namespace crema {
namespace {

constexpr double kSmallest = 1e-20;  // Caffe's kLOG_THRESHOLD

std::vector<double> ReadMatrix(const Layer& layer) {
  const InfogainLossParameter& param = layer.param().infogain_loss_param();
  if (!param.has_source()) return {};
  try {
    const BlobProto blob = ReadBlobProtoFile(param.source());
    CheckBlob(blob);
    Tensor tensor(ShapeOf(blob), DType::kF64);
    CopyTo(blob, tensor.view());
    const auto values = std::as_const(tensor).view().span<double>();
    return {values.begin(), values.end()};
  } catch (const Error& error) {
    Problem problem = error.problems().front();
    problem.where.layer = layer.param().name();
    problem.where.field = "infogain_loss_param.source";
    throw Error(std::move(problem));
  }
}

class InfogainLoss final : public SoftmaxLossOf<InfogainLoss> {
 public:
  explicit InfogainLoss(const LayerParameter& param)
      : SoftmaxLossOf(param, param.infogain_loss_param().axis(), "infogain_loss_param.axis"),
        matrix_(param.bottom_size() > 2 ? std::vector<double>() : ReadMatrix(*this)) {
    if (param.loss_param().has_normalize()) {
      FailField(*this, "loss_param.normalize",
                "InfogainLoss takes no `normalize`; write `normalization: VALID` for true and "
                "`normalization: BATCH_SIZE` for false");
    }
  }

  template <typename T>
  double SumOf(const SoftmaxBatch<T>& batch) const {
    const SoftmaxSize& sizes = batch.sizes;
    return WithMatrix(batch, [&](const auto* matrix) {
      return SumItems(batch.threads, batch.positions(), ItemGrain(sizes.classes),
                      [&](int64_t at, double sum) {
                        if (batch.Ignores(at)) return sum;
                        const auto* row = matrix + batch.Label(at) * sizes.classes;
                        const T* prob = batch.prob + batch.First(at);
                        for (int64_t c = 0; c < sizes.classes; ++c) {
                          const auto p = static_cast<double>(prob[c * sizes.inner]);
                          sum -= static_cast<double>(row[c]) * std::log(std::max(p, kSmallest));
                        }
                        return sum;
                      });
    });
  }

  template <typename T>
  void WriteGradient(const SoftmaxBatch<T>& batch, double scale, T* dx) const {
    const int64_t classes = batch.sizes.classes;
    WithMatrix(batch, [&](const auto* matrix) {
      ForItems(batch.threads, batch.positions(), ItemGrain(classes), [&](int64_t at) {
        const auto* row = batch.Ignores(at) ? nullptr : matrix + batch.Label(at) * classes;
        GradientOfPosition(batch, row, scale, at, dx);
      });
    });
  }

 private:
  void CheckRule(const InferContext& context, const SoftmaxSize& sizes) const override {
    const bool given = context.inputs.size() > 2;
    if (!given && !param().infogain_loss_param().has_source()) {
      FailInputs(*this,
                 "there is no matrix: give a third bottom, or infogain_loss_param { source: ... }");
    }
    const int64_t values =
        given ? context.inputs[2].shape.count() : static_cast<int64_t>(matrix_.size());
    if (values == sizes.classes * sizes.classes) return;
    const std::string message =
        StrCat("the matrix has ", values, " values, but ", sizes.classes, " classes need ",
               sizes.classes, "x", sizes.classes, " = ", sizes.classes * sizes.classes);
    if (given) FailInputs(*this, message);
    FailField(*this, "infogain_loss_param.source", message);
  }

  // Calls body(matrix) with the matrix of input 2 as T, or that of the file as double.
  template <typename T, typename Body>
  auto WithMatrix(const SoftmaxBatch<T>& batch, Body&& body) const {
    return batch.inputs.size() > 2 ? body(batch.inputs[2].template data<T>())
                                   : body(matrix_.data());
  }

  // `row` is the matrix row of the label, or null if the label is ignored.
  template <typename T, typename M>
  static void GradientOfPosition(const SoftmaxBatch<T>& batch, const M* row, double scale,
                                 int64_t position, T* dx) {
    const SoftmaxSize& sizes = batch.sizes;
    const double sum = row == nullptr ? 0 : std::accumulate(row, row + sizes.classes, 0.0);
    for (int64_t c = 0; c < sizes.classes; ++c) {
      const int64_t i = batch.First(position) + c * sizes.inner;
      dx[i] = row == nullptr ? T(0)
                             : static_cast<T>(scale * (static_cast<double>(batch.prob[i]) * sum -
                                                       static_cast<double>(row[c])));
    }
  }

  const std::vector<double> matrix_;
};

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {5, 4}};
  const SampleInput labels = Labels({5}, 3);
  const SampleInput matrix{.shape = {1, 1, 4, 4}, .low = 0, .high = 1};
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels = Labels({2, 3, 5}, 3);
  std::vector<LayerSample> samples = {
      {.name = "rows", .inputs = {rows, labels, matrix}},
      {.name = "signed_matrix", .inputs = {rows, labels, {.shape = {16}}}, .outputs = 2},
      {.name = "last_axis",
       .prototxt = "infogain_loss_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}, Labels({2, 3}, 3), matrix}},
      {.name = "large", .inputs = {{.shape = {1031, 4}}, Labels({1031}, 3), matrix}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}, {.shape = {3, 3}}}},
  };
  for (const char* rule :
       {"", "normalization: FULL", "normalization: BATCH_SIZE", "normalization: NONE"}) {
    samples.push_back({.name = StrCat("ignore_", rule),
                       .prototxt = StrCat("loss_param { ignore_label: 2 ", rule, " }"),
                       .inputs = {maps, map_labels, matrix}});
  }
  return samples;
}

}  // namespace

void RegisterInfogainLoss(Registry& registry) {
  LayerType type = SoftmaxLossType<InfogainLoss>("InfogainLoss", "infogain_loss_param");
  type.summary = "Cross entropy of the softmax of scores, weighted by a matrix of label and class.";
  type.formula =
      "p = softmax(scores); loss = -sum_i sum_c H[label_i, c] ln max(p_ic, 1e-20) / normalizer "
      "over "
      "positions i that are not ignored";
  type.input_docs = {
      "scores: the K classes on axis infogain_loss_param.axis, any axes before and after it",
      "labels: one for each position, in any shape with the same axis 0; whole numbers 0..K-1, or "
      "ignore_label; no gradient",
      "H: K * K values, a row for each label; optional if source is set; no gradient"};
  type.differences = {
      kLabelErrors, "The second output needs no loss_weight, and its gradient counts.",
      "Versions of Caffe from before 2017 took probabilities; this one takes scores, as Caffe "
      "1.0."};
  type.unread_fields = FieldsOfSoftmaxWithLoss();
  type.inputs = {2, 3};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {5}, {3, 3}}, .expect = "need 4 labels"},
      {.input_shapes = {{4, 3}, {4}, {3, 2}}, .expect = "3x3 = 9"},
      {.input_shapes = {{4, 3}, {4}}, .expect = "there is no matrix"},
      {.prototxt = "infogain_loss_param { source: \"/nonexistent/h.binaryproto\" }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "h.binaryproto"},
      {.prototxt = "infogain_loss_param { axis: 2 }",
       .input_shapes = {{4, 3}, {4}, {3, 3}},
       .expect = "axis 2 is outside"},
      {.prototxt = "loss_param { normalize: true }",
       .input_shapes = {{4, 3}, {4}, {3, 3}},
       .expect = "takes no `normalize`"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
