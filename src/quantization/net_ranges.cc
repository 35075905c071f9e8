#include "quantization/net_ranges.h"

#include <algorithm>
#include <numeric>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

size_t IndexOf(int i) { return static_cast<size_t>(i); }

// Returns true if input and output are the same bytes.
bool KeepsBytes(const PlannedLayer& layer) {
  return layer.type->traits.computes_on_bytes && layer.info.moves_only &&
         layer.inputs.size() == 1 && layer.outputs.size() == 1;
}

// Union-find over values.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Of(int v) {
    while (parent_[IndexOf(v)] != v) v = parent_[Index(v)] = parent_[Index(parent_[Index(v)])];
    return v;
  }
  void Join(int a, int b) { parent_[IndexOf(Of(a))] = Of(b); }

 private:
  std::vector<int> parent_;
};

float MagnitudeOf(const ValueHistogram& histogram, const QuantizeOptions& options) {
  if (options.rule == RangeRule::kLargest) return histogram.LargestMagnitude();
  if (options.rule == RangeRule::kPercentile) return PercentileRange(histogram, options.percentile);
  return EntropyRange(histogram, histogram.lowest() < 0 ? 128 : 256);
}

// Joins values that must share a range, and gives each set their largest range.
class RangeFinder {
 public:
  RangeFinder(const Plan& plan, const NetHistograms& histograms, const QuantizeOptions& options)
      : plan_(plan),
        histograms_(histograms),
        options_(options),
        sets_(plan.values.size()),
        magnitudes_(plan.values.size()) {
    std::map<const ValueHistogram*, float> known;  // one histogram may have several names
    for (size_t v = 0; v < magnitudes_.size(); ++v) {
      const ValueHistogram& histogram = HistogramOf(v);
      if (histogram.count() == 0) continue;
      const auto [magnitude, fresh] = known.try_emplace(&histogram, 0.0F);
      if (fresh) magnitude->second = MagnitudeOf(histogram, options);
      magnitudes_[v] = magnitude->second;
    }
  }

  std::vector<Int8Range> Find() {
    for (const PlannedLayer& layer : plan_.layers) {
      if (layer.inputs.empty()) continue;
      if (layer.info.view || layer.info.share) {
        for (int v : layer.outputs) sets_.Join(v, layer.inputs[0]);
      } else if (KeepsBytes(layer)) {
        sets_.Join(layer.inputs[0], layer.outputs[0]);
      }
    }
    ranges_ = RangesOf(&sets_);
    for (const PlannedLayer& layer : plan_.layers) {
      if (layer.type->name == "Concat") TryToJoin(layer);
    }
    return std::move(ranges_);
  }

 private:
  const ValueHistogram& HistogramOf(size_t v) const { return histograms_.Of(static_cast<int>(v)); }

  // A Concat copies bytes if all inputs share a range. If that would cost one of them too much
  // precision, each keeps its own range and the Concat copies floats.
  void TryToJoin(const PlannedLayer& concat) {
    Sets joined = sets_;
    for (int v : concat.inputs) joined.Join(v, concat.outputs[0]);
    std::vector<Int8Range> ranges = RangesOf(&joined);
    const int set = joined.Of(concat.outputs[0]);
    for (size_t v = 0; v < ranges.size(); ++v) {
      if (joined.Of(static_cast<int>(v)) != set || magnitudes_[v] <= 0) continue;
      const double snr = SnrDb(v, ranges[v]);
      if (snr < options_.least_snr_db && snr < SnrDb(v, ranges_[v])) return;
    }
    sets_ = std::move(joined);
    ranges_ = std::move(ranges);
  }

  double SnrDb(size_t v, const Int8Range& range) const {
    return RoundingSnrDb(HistogramOf(v), double{range.max()}, range.non_negative() ? 255 : 127);
  }

  // By value.
  std::vector<Int8Range> RangesOf(Sets* sets) const {
    std::vector<Int8Range> of_set(magnitudes_.size()), ranges(magnitudes_.size());
    std::vector<bool> has_negative(magnitudes_.size(), false);
    for (size_t v = 0; v < magnitudes_.size(); ++v) {
      const size_t set = IndexOf(sets->Of(static_cast<int>(v)));
      if (magnitudes_[v] > of_set[set].max()) of_set[set].set_max(magnitudes_[v]);
      has_negative[set] = has_negative[set] || HistogramOf(v).lowest() < 0;
    }
    for (size_t v = 0; v < ranges.size(); ++v) {
      const size_t set = IndexOf(sets->Of(static_cast<int>(v)));
      if (of_set[set].max() <= 0) continue;
      ranges[v] = of_set[set];
      if (!has_negative[set]) ranges[v].set_non_negative(true);
    }
    return ranges;
  }

  const Plan& plan_;
  const NetHistograms& histograms_;
  const QuantizeOptions& options_;
  Sets sets_;
  std::vector<float> magnitudes_;  // by value; 0: no range
  std::vector<Int8Range> ranges_;
};

}  // namespace

NetHistograms::NetHistograms(const Plan& plan)
    : plan_(plan), histogram_of_(plan.values.size()), wanted_(plan.values.size(), false) {
  std::iota(histogram_of_.begin(), histogram_of_.end(), 0);
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.inputs.empty() || !(layer.info.view || layer.info.share)) continue;
    for (int v : layer.outputs) histogram_of_[IndexOf(v)] = histogram_of_[Index(layer.inputs[0])];
  }
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.type->traits.computes_on_bytes) continue;
    for (const auto* values : {&layer.inputs, &layer.outputs}) {
      for (int v : *values) {
        const BlobSpec& spec = plan.values[IndexOf(v)].spec;
        if (spec.dtype == DType::kF32 && spec.shape.axes() >= 2) {
          wanted_[IndexOf(histogram_of_[Index(v)])] = true;
        }
      }
    }
  }
}

void NetHistograms::AfterForward(size_t layer, const ForwardArgs& args) {
  const PlannedLayer& planned = plan_.layers[layer];
  for (size_t o = 0; o < args.outputs.size(); ++o) {
    const int v = planned.outputs[o];
    const TensorView& y = args.outputs[o];
    if (!wanted_[IndexOf(v)] || y.empty() || y.dtype() != DType::kF32) continue;
    // A layer with dynamic outputs fills only a part of the planned memory.
    const int64_t count = o < args.output_shapes.size() ? args.output_shapes[o].count() : y.count();
    ValueHistogram& histogram = histograms_[v];
    histogram.Add({y.data<float>(), static_cast<size_t>(std::min(count, y.count()))});
    if (histogram.not_finite() == 0) continue;
    Fail(ErrorCode::kInvalidArgument,
         "calibration found values that are not finite (NaN or infinite): such a net has no ranges",
         {.layer = planned.name(), .blob = plan_.values[IndexOf(v)].name});
  }
}

const ValueHistogram& NetHistograms::Of(int value) const {
  static const ValueHistogram none;
  const auto found = histograms_.find(histogram_of_[IndexOf(value)]);
  return found == histograms_.end() ? none : found->second;
}

void NetHistograms::CheckInputs() const {
  for (const PlannedLayer& layer : plan_.layers) {
    if (!layer.inputs.empty() || layer.type->name != "Input") continue;
    for (int v : layer.outputs) {
      const ValueHistogram& histogram = Of(v);
      if (histogram.count() < 2 || histogram.lowest() < histogram.highest()) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("this input is ", histogram.lowest(),
                  " everywhere in the calibration list: ranges need data as the net will see"),
           {.layer = layer.name(), .blob = plan_.values[IndexOf(v)].name});
    }
  }
}

std::vector<Int8Range> RangesOf(const Plan& plan, const NetHistograms& histograms,
                                const QuantizeOptions& options) {
  return RangeFinder(plan, histograms, options).Find();
}

void WriteRanges(const Plan& plan, const std::vector<Int8Range>& ranges, NetParameter* net) {
  int written = 0;
  for (const PlannedLayer& layer : plan.layers) {
    // Inserted Splits are not in the text.
    if (written >= net->layer_size()) break;
    LayerParameter& text = *net->mutable_layer(written);
    if (text.name() != layer.name() || text.type() != layer.layer->param().type()) continue;
    ++written;
    const auto any = [&](const std::vector<int>& values) {
      return std::ranges::any_of(values, [&](int v) { return ranges[IndexOf(v)].has_max(); });
    };
    text.clear_int8();
    if (any(layer.outputs)) {
      for (int v : layer.outputs) *text.mutable_int8()->add_top() = ranges[IndexOf(v)];
    }
    if (layer.type->traits.computes_on_bytes && any(layer.inputs)) {
      for (int v : layer.inputs) *text.mutable_int8()->add_bottom() = ranges[IndexOf(v)];
    }
  }
  CREMA_CHECK(written == net->layer_size());
}

}  // namespace crema
