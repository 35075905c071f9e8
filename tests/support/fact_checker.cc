#include "support/fact_checker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "support/layer_run.h"

namespace crema::test {
namespace {

constexpr int64_t kBatch = 3;
// Relative to the largest value, in f64: the order of additions may depend on the position.
constexpr double kTolerance = 1e-9;

using Blobs = std::vector<Values>;

std::string_view NameOf(Reach reach) {
  constexpr std::array<std::string_view, 4> kNames = {"kAll", "kSample", "kPlace", "kElement"};
  return kNames[static_cast<size_t>(reach)];
}

bool Flag(const std::vector<bool>& flags, size_t index) {
  return index < flags.size() && flags[index];
}

bool Same(double a, double b, double bound) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= bound;
}

double Bound(const Values& values) {
  double largest = 0;
  for (double v : values) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
  return kTolerance * largest;
}

bool SameBlobs(const Blobs& a, const Blobs& b) {
  return std::ranges::equal(a, b, [](const Values& x, const Values& y) {
    return std::ranges::equal(x, y, [](double v, double w) { return Same(v, w, 0); });
  });
}

// Nothing where the layer does not take such inputs. `all`: not only those with as many entries as
// the first.
std::optional<LayerSample> WithBatch(const LayerType& type, LayerSample sample, bool all) {
  if (sample.inputs.empty() || sample.inputs[0].shape.empty()) return std::nullopt;
  const int64_t batch = sample.inputs[0].shape[0];
  for (SampleInput& input : sample.inputs) {
    if (!input.shape.empty() && (all || input.shape[0] == batch)) input.shape[0] = kBatch;
  }
  try {
    const LayerCase tried(type, sample, DType::kF64);
    return sample;
  } catch (const Error&) {
    return std::nullopt;
  }
}

LayerSample InBatches(const LayerType& type, const LayerSample& sample) {
  for (const bool all : {false, true}) {
    if (std::optional<LayerSample> batches = WithBatch(type, sample, all)) return *batches;
  }
  return sample;
}

// Samples whose outputs are means of one element.
bool HasMeansOfOne(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"Interp/from_one_pixel", "Interp/one_pixel",
                                                      "Interp/shrink", "PSROIPooling/one_bin",
                                                      "Resize/one_pixel"};
  return std::ranges::find(kNames, name) != kNames.end();
}

class FactChecker {
 public:
  FactChecker(const LayerType& type, const LayerSample& sample)
      : type_(type),
        sample_(InBatches(type, sample)),
        case_(type, sample_, DType::kF64),
        values_(DrawValues(case_)),
        name_(StrCat(type.name, "/", sample.name)) {
    for (const char* draw : {" drawn again", " and again", " and once more"}) {
      LayerSample named = sample_;
      named.name += draw;
      others_.push_back(DrawValues(LayerCase(type, named, DType::kF64)).inputs);
    }
  }

  std::vector<std::string> Check() {
    if (!RunAll()) return {};
    if (Info().constant && !is_constant_) {
      Complain("outputs depend on elements of inputs: remove info.constant");
    } else if (is_constant_ && Info().reach == Reach::kAll) {
      if (!Info().constant && IsConstantType()) {
        Complain("outputs do not depend on elements of inputs: write info.constant = true");
      }
    } else if (!Info().constant) {
      CheckReach();
    }
    CheckMoves();
    return std::move(failures_);
  }

 private:
  const LayerInfo& Info() const { return case_.info(); }
  const Shape& ShapeOf(size_t input) const { return case_.infer_context().inputs[input].shape; }
  size_t InputCount() const { return sample_.inputs.size(); }
  void Complain(const std::string& text) { failures_.push_back(StrCat(name_, ": ", text)); }
  // Returns nothing if the layer refuses these values.
  std::optional<Blobs> Run(const Blobs& inputs) const {
    CaseValues values = values_;
    values.inputs = inputs;
    try {
      return RunLayer(case_, values, {}).outputs;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Returns false if there is nothing to compare.
  bool RunAll() {
    if (sample_.inputs.empty()) return false;
    const std::optional<Blobs> outputs = Run(values_.inputs);
    const std::optional<Blobs> again = Run(others_[0]);
    if (!outputs || !again || std::ranges::all_of(*outputs, &Values::empty)) return false;
    outputs_ = *outputs;
    outputs_again_ = *again;
    is_constant_ = std::ranges::all_of(others_, [&](const Blobs& inputs) {
      const std::optional<Blobs> other = Run(inputs);
      return other && SameBlobs(*other, outputs_);
    });
    is_input_ = std::ranges::all_of(
        outputs_, [&](const Values& output) { return output == values_.inputs[0]; });
    return true;
  }

  // Returns true if no sample of the type shows that outputs depend on inputs.
  bool IsConstantType() const {
    return std::ranges::all_of(type_.samples, [&](const LayerSample& sample) {
      FactChecker other(type_, sample);
      return !other.RunAll() || other.is_constant_;
    });
  }

  void CheckReach() {
    const Reach claimed = Info().reach;
    const Reach shown = ShownReach(Info().shared_inputs);
    if (shown < claimed) {
      Complain(StrCat("claims Reach::", NameOf(claimed), ", but runs show Reach::", NameOf(shown),
                      ": write that into info.reach"));
    } else if (shown > claimed && !IsAccident(shown, claimed)) {
      Complain(StrCat("does not claim what runs show: write info.reach = Reach::", NameOf(shown)));
    }
    if (InputCount() < 2 || shown > Reach::kAll) return;
    std::vector<bool> rest(InputCount(), true);
    rest[0] = false;
    if (claimed == Reach::kAll && KeepsSamples(rest)) {
      Complain(
          "does not claim what runs show: write info.reach = Reach::kSample, with all inputs but "
          "the first in info.shared_inputs");
    }
  }

  // With one channel or one copy these are indistinguishable.
  bool IsAccident(Reach shown, Reach claimed) const {
    const Shape& shape = ShapeOf(0);
    if (shown == Reach::kElement && claimed == Reach::kPlace) {
      return shape.axes() < 2 || shape[1] < 2;
    }
    // An output that is filtered may be whole by chance.
    return Info().dynamic_outputs || (claimed == Reach::kSample && (is_input_ || is_constant_));
  }

  Reach ShownReach(const std::vector<bool>& shared) const {
    const bool samples = KeepsSamples(shared);
    if (!samples && ShapeOf(0).axes() > 0) return Reach::kAll;
    if (KeepsElements(shared, false)) return Reach::kElement;
    if (KeepsElements(shared, true)) return Reach::kPlace;
    return samples ? Reach::kSample : Reach::kAll;
  }

  // Returns true if each sample of the outputs follows its sample of the inputs to another position
  // of the batch, between other samples.
  bool KeepsSamples(const std::vector<bool>& shared) const {
    const auto begins_with = [](const Shape& shape, int64_t dim) {
      return shape.axes() > 0 && shape[0] == dim;
    };
    int64_t batch = 0;
    std::vector<bool> stays = shared;
    stays.resize(InputCount());
    for (size_t i = 0; i < InputCount(); ++i) {
      if (stays[i]) continue;
      if (batch == 0 && ShapeOf(i).axes() > 0) batch = ShapeOf(i)[0];
      if (batch > 1 && begins_with(ShapeOf(i), batch)) continue;
      if (i == 0 || Matters(i)) return false;
      stays[i] = true;
    }
    const bool follow = std::ranges::all_of(
        Info().outputs, [&](const BlobSpec& output) { return begins_with(output.shape, batch); });
    if (!follow) return false;
    for (int64_t from = 0; from < batch; ++from) {
      const int64_t to = (from + 1) % batch;
      Blobs inputs = values_.inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (stays[i]) continue;
        const auto size = static_cast<std::ptrdiff_t>(inputs[i].size()) / batch;
        inputs[i] = others_[0][i];
        std::copy_n(values_.inputs[i].begin() + from * size, size, inputs[i].begin() + to * size);
      }
      const std::optional<Blobs> moved = Run(inputs);
      if (!moved || !SampleFollows(*moved, batch, from, to)) return false;
    }
    return true;
  }

  // Returns true if the elements of the input matter, not its shape alone.
  bool Matters(size_t input) const {
    Blobs inputs = values_.inputs;
    inputs[input] = others_[0][input];
    const std::optional<Blobs> outputs = Run(inputs);
    return !outputs || !SameBlobs(*outputs, outputs_);
  }

  bool SampleFollows(const Blobs& moved, int64_t batch, int64_t from, int64_t to) const {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (moved[o].size() != outputs_[o].size()) return false;
      const auto size = static_cast<std::ptrdiff_t>(moved[o].size()) / batch;
      const double bound = Bound(outputs_[o]);
      const auto same = [&](double a, double b) { return Same(a, b, bound); };
      if (!std::equal(moved[o].begin() + to * size, moved[o].begin() + (to + 1) * size,
                      outputs_[o].begin() + from * size, same)) {
        return false;
      }
    }
    return true;
  }

  // Returns true if each element of the outputs follows its elements of the inputs to another
  // position, in its channel or anywhere, between other elements.
  bool KeepsElements(const std::vector<bool>& shared, bool in_channel) const {
    const Shape& shape = ShapeOf(0);
    const auto count = static_cast<size_t>(shape.count());
    const auto fits = [&](const BlobSpec& spec) { return spec.shape == shape; };
    for (size_t i = 0; i < InputCount(); ++i) {
      if (!Flag(shared, i) && ShapeOf(i) != shape) return false;
    }
    if (Flag(shared, 0) || !std::ranges::all_of(Info().outputs, fits)) return false;
    const std::vector<size_t> place = Places(shape, in_channel);
    const RandomStream stream(HashName(name_), 1);
    for (const uint32_t half : {0U, 1U}) {
      const auto moves = [&](size_t e) { return stream.Below(e, 2) == half; };
      Blobs inputs = values_.inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (Flag(shared, i)) continue;
        for (size_t e = 0; e < count; ++e) {
          inputs[i][place[e]] = (moves(e) ? values_.inputs : others_[0])[i][e];
        }
      }
      const std::optional<Blobs> moved = Run(inputs);
      if (!moved) return false;
      for (size_t o = 0; o < outputs_.size(); ++o) {
        const double bound = Bound(outputs_[o]);
        for (size_t e = 0; e < count; ++e) {
          if (moves(e) && !Same((*moved)[o][place[e]], outputs_[o][e], bound)) return false;
        }
      }
    }
    return true;
  }

  // A place for each element, in random order; in the same channel (axis 1), or anywhere.
  std::vector<size_t> Places(const Shape& shape, bool in_channel) const {
    const RandomStream stream(HashName(name_), 0);
    const bool has_channels = in_channel && shape.axes() > 1;
    const auto space = static_cast<size_t>(has_channels ? shape.count(2) : shape.count());
    const auto channels = static_cast<size_t>(has_channels ? shape[1] : 1);
    std::vector<std::vector<size_t>> of_channel(std::max<size_t>(1, channels));
    std::vector<size_t> places(static_cast<size_t>(shape.count()));
    const auto channel = [&](size_t e) { return e / std::max<size_t>(1, space) % channels; };
    for (size_t e = 0; e < places.size(); ++e) of_channel[channel(e)].push_back(e);
    std::vector<std::vector<size_t>> shuffled = of_channel;
    for (std::vector<size_t>& list : shuffled) {
      for (size_t i = list.size(); i > 1; --i) {
        std::swap(list[i - 1], list[stream.Below(list[i - 1], static_cast<uint32_t>(i))]);
      }
    }
    for (size_t c = 0; c < of_channel.size(); ++c) {
      for (size_t i = 0; i < of_channel[c].size(); ++i) places[of_channel[c][i]] = shuffled[c][i];
    }
    return places;
  }

  // Elements that `inputs` have. Whole numbers may be equal by chance.
  std::unordered_set<double> ElementsOf(const Blobs& inputs) const {
    std::unordered_set<double> elements;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!sample_.inputs[i].integer) elements.insert(inputs[i].begin(), inputs[i].end());
    }
    return elements;
  }

  void CheckMoves() {
    const std::unordered_set<double> given = ElementsOf(values_.inputs);
    const std::unordered_set<double> given_others = ElementsOf(others_[0]);
    bool moves = true;
    bool any = false;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_again_[o].size() != outputs_[o].size()) continue;  // as many as values say
      for (size_t e = 0; e < outputs_[o].size(); ++e) {
        const bool taken =
            given.contains(outputs_[o][e]) && given_others.contains(outputs_again_[o][e]);
        any = any || taken;
        moves = moves && (taken || Same(outputs_[o][e], outputs_again_[o][e], 0));
      }
    }
    if (Info().moves_only && !moves) {
      Complain(
          "outputs have elements that are neither of the inputs nor constants: remove "
          "info.moves_only");
    }
    if (!Info().moves_only && moves && any && !is_input_ && !HasMeansOfOne(name_)) {
      Complain("all elements of outputs are elements of inputs: write info.moves_only = true");
    }
  }

  const LayerType& type_;
  const LayerSample sample_;  // in batches
  const LayerCase case_;
  const CaseValues values_;
  const std::string name_;
  std::vector<Blobs> others_;  // inputs, drawn anew
  Blobs outputs_;
  Blobs outputs_again_;       // of the first of these
  bool is_constant_ = false;  // whatever the inputs are
  bool is_input_ = false;     // all outputs are copies of input 0
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> CheckFacts(const LayerType& type, const LayerSample& sample) {
  return FactChecker(type, sample).Check();
}

}  // namespace crema::test
