#include "inference/compare_models.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/int8_scale.h"
#include "math/boxes.h"
#include "math/stored_to_plain.h"
#include "runtime/session.h"

namespace crema {
namespace {

struct ScoredBox {
  float image = 0;
  float label = 0;
  Box box;
};

std::vector<ScoredBox> BoxesAbove(const ConstTensorView& rows, double least) {
  std::vector<ScoredBox> boxes;
  const std::span<const float> values = rows.span<float>();
  for (size_t at = 0; at + 7 <= values.size(); at += 7) {
    const float* row = values.data() + at;
    if (row[1] < 0 || !(double{row[2]} > least)) continue;
    boxes.push_back({row[0], row[1], {row[3], row[4], row[5], row[6]}});
  }
  return boxes;
}

double OverlapOfSame(const ScoredBox& a, const ScoredBox& b) {
  return a.image == b.image && a.label == b.label ? Overlap(a.box, b.box) : 0;
}

}  // namespace

double Difference::relative() const {
  if (squares == 0) return 0;
  return reference_squares == 0 ? std::numeric_limits<double>::infinity()
                                : std::sqrt(squares / reference_squares);
}

void AddDifference(const ConstTensorView& a, const ConstTensorView& b, Difference* difference) {
  if (!(a.shape() == b.shape())) {
    difference->note = StrCat(ToString(a.shape()), " and ", ToString(b.shape()));
    return;
  }
  if (a.dtype() != DType::kF32 || b.dtype() != DType::kF32) {
    difference->note = "not in single precision";
    return;
  }
  const std::span<const float> x = a.span<float>(), y = b.span<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    double apart = same ? 0 : std::abs(double{x[i]} - double{y[i]});
    if (std::isnan(apart)) apart = std::numeric_limits<double>::infinity();
    difference->largest = std::max(difference->largest, apart);
    difference->squares += apart * apart;
    if (!std::isfinite(x[i])) continue;
    difference->most = std::max(difference->most, std::abs(double{x[i]}));
    difference->reference_squares += double{x[i]} * double{x[i]};
  }
}

bool AreScores(const ConstTensorView& a, const ConstTensorView& b) {
  const Shape& shape = a.shape();
  return shape == b.shape() && a.dtype() == DType::kF32 && b.dtype() == DType::kF32 &&
         (shape.axes() == 2 || shape.axes() == 4) && shape[1] >= 2;
}

void AddTopOne(const ConstTensorView& a, const ConstTensorView& b, Agreement* top) {
  const Shape& shape = a.shape();
  const auto classes = static_cast<size_t>(shape[1]);
  const auto pixels = static_cast<size_t>(shape.count(2));
  const auto best = [&](const float* scores) {
    size_t found = 0;
    for (size_t c = 1; c < classes; ++c) {
      if (scores[c * pixels] > scores[found * pixels]) found = c;
    }
    return found;
  };
  for (size_t n = 0; n < static_cast<size_t>(shape[0]); ++n) {
    for (size_t p = 0; p < pixels; ++p) {
      const size_t at = n * classes * pixels + p;
      top->agree += best(a.data<float>() + at) == best(b.data<float>() + at) ? 1 : 0;
      ++top->of;
    }
  }
}

bool AreBoxes(const BlobInfo& output) {
  const std::vector<int64_t>& shape = output.shape;
  return shape.size() == 4 && shape[2] < 0 && shape[3] == 7;
}

void AddBoxes(const ConstTensorView& a, const ConstTensorView& b, double least, Agreement* boxes) {
  constexpr double kSame = 0.5;
  const std::vector<ScoredBox> ours = BoxesAbove(a, least);
  std::vector<ScoredBox> theirs = BoxesAbove(b, least);
  boxes->of += static_cast<int64_t>(std::max(ours.size(), theirs.size()));
  for (const ScoredBox& box : ours) {
    const auto best = std::ranges::max_element(
        theirs, {}, [&](const ScoredBox& other) { return OverlapOfSame(box, other); });
    if (best == theirs.end() || OverlapOfSame(box, *best) < kSame) continue;
    ++boxes->agree;
    theirs.erase(best);
  }
}

ModelOptions ObservableOptions(ModelOptions options) {
  options.plan.passes.move_strides = false;
  options.plan.passes.fuse = false;
  options.plan.passes.share_memory = false;
  return options;
}

// A model and a session that keeps all values.
struct LayerComparison::Side {
  std::shared_ptr<const Model> model;
  ComputeDevice device;
  int threads = 1;
  std::vector<Shape> shapes;
  std::unique_ptr<Session> session;

  void Run(std::span<const NamedTensor> inputs) {
    std::vector<Shape> wanted;
    std::vector<const NamedTensor*> ordered;
    for (const BlobInfo& blob : model->inputs()) {
      const auto found = std::ranges::find(inputs, blob.name, &NamedTensor::name);
      if (found == inputs.end()) {
        Fail(ErrorCode::kInvalidArgument, StrCat("there is no input '", blob.name, "'"));
      }
      wanted.push_back(found->value.shape());
      ordered.push_back(&*found);
    }
    if (!session || !(shapes == wanted)) {
      shapes = wanted;
      session = std::make_unique<Session>(model->PlanFor(shapes), model->weights(),
                                          device.Context(threads, 1));
      session->FixWeights();
    }
    for (const NamedTensor* input : ordered) {
      const TensorView to = session->MutableData(std::string(input->name));
      CREMA_CHECK(!to.empty() && to.bytes() == input->value.bytes());
      session->Write(to, input->value.raw());
    }
    session->Forward();
  }

  // Returns the last value of that name, row-major.
  Tensor PlainValue(const std::string& blob) const {
    const Plan& plan = session->plan();
    const int v = plan.FindValue(blob);
    const ConstTensorView view = session->DataOf(v);
    if (view.raw() == nullptr || view.image_stride() != 0) return {};
    const BlobSpec& spec = plan.values[static_cast<size_t>(v)].spec;
    Tensor plain(view.shape(), DType::kF32);
    float* to = plain.view().data<float>();
    if (spec.format == MemoryFormat{}) {
      if (view.dtype() != DType::kF32) return {};
      session->Read(view, to);
      return plain;
    }
    if (plan.options.device.type != DeviceType::kCpu) return {};
    const bool bytes = spec.format.type == DType::kU8;
    const std::optional<Int8Scale> scale = bytes ? ScaleOfValue(v) : Int8Scale{};
    if (!scale) return {};
    StoredToPlain(threads, view.shape(), spec.format, view.raw(), *scale, to);
    return plain;
  }

  // Returns the scale of an int8 value.
  std::optional<Int8Scale> ScaleOfValue(int v) const {
    const Plan& plan = session->plan();
    const int producer = plan.values[static_cast<size_t>(v)].producer;
    const Int8Ranges& ranges = plan.layers[static_cast<size_t>(producer)].layer->param().int8();
    if (ranges.top_size() != 1) return std::nullopt;
    return ScaleOf(ranges.top(0));
  }

  std::string LayerOf(const std::string& blob) const {
    const Plan& plan = session->plan();
    const int producer = plan.values[static_cast<size_t>(plan.FindFirstValue(blob))].producer;
    return producer < 0 ? "" : plan.layers[static_cast<size_t>(producer)].name();
  }
};

LayerComparison::LayerComparison(std::shared_ptr<const Model> a, std::shared_ptr<const Model> b,
                                 const ModelOptions& options)
    : a_(std::make_unique<Side>()), b_(std::make_unique<Side>()) {
  for (const auto& [side, model] : {std::pair{a_.get(), &a}, {b_.get(), &b}}) {
    side->model = std::move(*model);
    side->device = options.device;
    side->threads = options.threads;
  }
}

LayerComparison::~LayerComparison() = default;

void LayerComparison::Add(std::span<const NamedTensor> inputs) {
  a_->Run(inputs);
  b_->Run(inputs);
  if (differences_.empty()) {
    std::set<std::string> seen;
    for (const PlannedValue& value : a_->session->plan().values) {
      if (b_->session->plan().FindValue(value.name) < 0 || !seen.insert(value.name).second)
        continue;
      differences_.push_back({.blob = value.name, .layer = a_->LayerOf(value.name)});
    }
  }
  for (Difference& difference : differences_) {
    const Tensor a = a_->PlainValue(difference.blob);
    const Tensor b = b_->PlainValue(difference.blob);
    if (a.view().empty() || b.view().empty()) {
      difference.note = "cannot be read";
    } else {
      AddDifference(a.view(), b.view(), &difference);
    }
  }
}

}  // namespace crema
