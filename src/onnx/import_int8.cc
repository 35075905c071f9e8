#include "onnx/import_int8.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace crema {
namespace {

// A blob rounded to bytes and back.
struct RoundedBlob {
  std::string source;
  Int8Range range;
};

bool SameRange(const Int8Range& a, const Int8Range& b) {
  return a.max() == b.max() && a.non_negative() == b.non_negative();
}

Int8Range RangeOf(float max, bool non_negative) {
  Int8Range range;
  range.set_max(max);
  if (non_negative) range.set_non_negative(true);
  return range;
}

// Returns the operand of a Binary layer of one bottom that does this with it.
std::optional<float> OperandOf(const LayerParameter* layer, BinaryParameter::Operation operation) {
  if (layer == nullptr || layer->type() != "Binary" || layer->bottom_size() != 1) return {};
  const BinaryParameter& param = layer->binary_param();
  if (param.operation() != operation || !param.has_value() || param.value_first()) return {};
  return param.value();
}

// Returns the range of numbers that are `step` apart, from `low` - `zero` steps on.
std::optional<Int8Range> RangeOf(float low, float high, float zero, float step) {
  if (!(step > 0 && std::isfinite(step * 255)) || high - low != 255) return {};
  if (low - zero == -128) return RangeOf(127 * step, false);
  if (low - zero == 0) return RangeOf(255 * step, true);
  return {};
}

// Returns true if the weights of each output are whole multiples of a step, at most 128 of them.
bool HasSteps(const std::vector<float>& weights) {
  float most = 0;
  for (const float weight : weights) most = std::max(most, std::abs(weight));
  if (most == 0) return true;
  const auto fits = [&](int steps) {
    const float step = most / static_cast<float>(steps);
    return std::ranges::all_of(weights, [&](float weight) {
      const float whole = weight / step;
      return std::abs(whole - std::nearbyint(whole)) < 1e-3F;
    });
  };
  for (int steps = 128; steps > 0; --steps) {
    if (fits(steps)) return true;
  }
  return false;
}

bool HasSteps(const LayerParameter& layer) {
  if (layer.blobs_size() == 0 || layer.blobs(0).shape().dim_size() < 2) return false;
  const BlobProto& blob = layer.blobs(0);
  const bool last = layer.type() == "InnerProduct" && layer.inner_product_param().transpose();
  const auto outputs = static_cast<int>(blob.shape().dim(last ? 1 : 0));
  if (outputs < 1) return false;
  const int inner = last ? 1 : blob.data_size() / outputs;
  for (int o = 0; o < outputs; ++o) {
    std::vector<float> weights;
    for (int i = o * inner; i < blob.data_size(); i += outputs * inner) {
      weights.insert(weights.end(), blob.data().begin() + i, blob.data().begin() + i + inner);
    }
    if (!HasSteps(weights)) return false;
  }
  return true;
}

class Int8Net {
 public:
  explicit Int8Net(NetParameter* net) : net_(*net) {
    for (int i = 0; i < net_.layer_size(); ++i) {
      for (const std::string& bottom : net_.layer(i).bottom()) readers_[bottom].push_back(i);
      for (const std::string& top : net_.layer(i).top()) producers_[top] = i;
    }
  }

  void Run() {
    for (const LayerParameter& layer : net_.layer()) {
      if (layer.type() == "Clip") FindRounded(layer);
    }
    std::erase_if(rounded_, [&](const auto& r) { return unclear_.contains(r.second.source); });
    if (rounded_.empty()) return;
    for (int i = 0; i < net_.layer_size(); ++i) Choose(i);
    for (int times = 0; DropOnce(); ++times) {
      if (times == kMostDrops) return;
    }
    if (std::ranges::none_of(chosen_, [&](int i) { return IsProduct(net_.layer(i)); })) return;
    CutNegative();
    SetRanges();
    RemoveUnread();
    net_.set_precision(INT8);
  }

 private:
  static constexpr int kMostDrops = 16;  // limits the time that a file can take

  static bool IsProduct(const LayerParameter& layer) {
    return layer.type() == "Convolution" || layer.type() == "InnerProduct";
  }
  // Its output has the values of its input.
  static bool Moves(const LayerParameter& layer) {
    if (layer.type() == "Pooling") {
      return layer.pooling_param().pool() == PoolingParameter::MAX && layer.top_size() == 1;
    }
    return layer.type() == "Reshape" || layer.type() == "Flatten" || layer.type() == "Dropout";
  }
  // Computes on bytes, with a range of its own for its output.
  static bool Mixes(const LayerParameter& layer) {
    if (layer.type() == "Eltwise") {
      const EltwiseParameter& param = layer.eltwise_param();
      return param.operation() == EltwiseParameter::SUM && param.coeff_size() == 0;
    }
    if (layer.type() == "ReLU") return layer.relu_param().negative_slope() == 0;
    return layer.type() == "Concat" ||
           (layer.type() == "Pooling" && layer.pooling_param().pool() == PoolingParameter::AVE);
  }

  const LayerParameter* ProducerOf(const std::string& blob) const {
    const auto found = producers_.find(blob);
    return found == producers_.end() ? nullptr : &net_.layer(found->second);
  }

  // Notes blobs that are rounded by way of this Clip: divided, rounded, shifted, clipped, and back.
  void FindRounded(const LayerParameter& clip) {
    float zero = 0;
    const LayerParameter* before = ProducerOf(clip.bottom(0));
    if (const auto shift = OperandOf(before, BinaryParameter::ADD)) {
      zero = *shift;
      before = ProducerOf(before->bottom(0));
    }
    if (before == nullptr || before->type() != "Unary" ||
        before->unary_param().operation() != UnaryParameter::ROUND) {
      return;
    }
    before = ProducerOf(before->bottom(0));
    const auto step = OperandOf(before, BinaryParameter::DIV);
    if (!step) return;
    const std::string& source = before->bottom(0);
    const auto range = RangeOf(clip.clip_param().min(), clip.clip_param().max(), zero, *step);
    const auto [place, fresh] = ranges_.emplace(source, range.value_or(Int8Range()));
    if (!range || (!fresh && !SameRange(place->second, *range))) {
      unclear_.insert(source);
      return;
    }
    heads_[source].push_back(producers_.at(before->top(0)));
    for (const int reader : readers_[clip.top(0)])
      FindBack(net_.layer(reader), zero, *step, source);
  }

  void FindBack(const LayerParameter& reader, float zero, float step, const std::string& source) {
    if (zero != 0) {
      if (OperandOf(&reader, BinaryParameter::SUB) != zero) return;
      for (const int next : readers_[reader.top(0)]) FindBack(net_.layer(next), 0, step, source);
      return;
    }
    if (OperandOf(&reader, BinaryParameter::MUL) != step) return;
    rounded_[reader.top(0)] = {source, ranges_.at(source)};
  }

  bool IsRounded(const std::string& blob) const { return rounded_.contains(blob); }
  bool HasRange(const std::string& blob) const {
    return ranges_.contains(blob) && !unclear_.contains(blob);
  }

  // The ReLU that alone reads a blob and whose output has a range; -1: none.
  int ReluAfter(const std::string& blob) const {
    const auto found = readers_.find(blob);
    if (found == readers_.end() || found->second.size() != 1) return -1;
    const LayerParameter& layer = net_.layer(found->second[0]);
    const bool fits = layer.type() == "ReLU" && layer.relu_param().negative_slope() == 0 &&
                      HasRange(layer.top(0));
    return fits ? found->second[0] : -1;
  }

  void Choose(int i) {
    const LayerParameter& layer = net_.layer(i);
    if (layer.bottom_size() == 0) return;
    if (!std::ranges::all_of(layer.bottom(), [&](const auto& b) { return IsRounded(b); })) return;
    if (IsProduct(layer)) {
      if (layer.bottom_size() == 1 && HasSteps(layer)) chosen_.insert(i);
    } else if (Mixes(layer)) {
      if (HasRange(layer.top(0)) || ReluAfter(layer.top(0)) >= 0) chosen_.insert(i);
    } else if (Moves(layer) && layer.bottom_size() == 1) {
      const Int8Range& range = rounded_.at(layer.bottom(0)).range;
      const auto [place, fresh] = ranges_.emplace(layer.top(0), range);
      if (!fresh && (unclear_.contains(layer.top(0)) || !SameRange(place->second, range))) return;
      if (fresh) moved_.insert(i);
      rounded_[layer.top(0)] = {layer.top(0), range};
      chosen_.insert(i);
    }
  }

  // A layer that only moves rounded values stays as it is if a reader takes no bytes, which would
  // get values that are not rounded; so do its readers then. Returns false if nothing changed.
  bool DropOnce() {
    const std::set<int> before = chosen_;
    for (auto i = before.rbegin(); i != before.rend(); ++i) {
      const LayerParameter& layer = net_.layer(*i);
      bool fits = std::ranges::all_of(layer.bottom(), [&](const auto& b) { return IsRounded(b); });
      if (fits && moved_.contains(*i)) {
        const std::vector<int>& readers = readers_[layer.top(0)];
        fits = !readers.empty() &&
               std::ranges::all_of(readers, [&](int r) { return chosen_.contains(r); });
      }
      if (fits) continue;
      chosen_.erase(*i);
      if (moved_.erase(*i) == 0) continue;
      ranges_.erase(layer.top(0));
      rounded_.erase(layer.top(0));
    }
    return chosen_.size() < before.size();
  }

  // Returns true if a blob has no negative numbers, or is an input, whose range is a promise.
  bool IsNonNegative(const std::string& blob) const {
    static const std::set<std::string> kTypes = {"AbsVal", "Exp",     "HardSigmoid",
                                                 "ReLU6",  "Sigmoid", "Softmax"};
    const LayerParameter* layer = ProducerOf(blob);
    if (layer == nullptr || layer->type() == "Input") return true;
    if (kTypes.contains(layer->type())) return true;
    if (layer->type() == "ReLU") return layer->relu_param().negative_slope() == 0;
    if (layer->type() == "Clip") return layer->clip_param().min() >= 0;
    return chosen_.contains(producers_.at(blob)) && !IsProduct(*layer) &&
           std::ranges::all_of(layer->bottom(), [&](const std::string& bottom) {
             return rounded_.at(bottom).range.non_negative();
           });
  }

  // Rounding to bytes without a sign cuts negative numbers. The cut becomes a ReLU, because the
  // plan may leave bytes out.
  void CutNegative() {
    std::map<std::string, std::string> cut;
    for (const int i : chosen_) {
      for (const std::string& bottom : net_.layer(i).bottom()) {
        const RoundedBlob& blob = rounded_.at(bottom);
        if (blob.range.non_negative() && !IsNonNegative(blob.source)) cut[blob.source] = "";
      }
    }
    for (auto& [source, top] : cut) {
      top = source + "/relu";
      while (producers_.contains(top)) top += "_";
      for (const int head : heads_[source]) net_.mutable_layer(head)->set_bottom(0, top);
      ranges_[top] = ranges_.at(source);
    }
    for (auto& [name, blob] : rounded_) {
      if (const auto found = cut.find(blob.source); found != cut.end()) blob.source = found->second;
    }
    if (!cut.empty()) InsertRelus(cut);
  }

  // Adds a ReLU after each blob, with the given top.
  void InsertRelus(const std::map<std::string, std::string>& tops) {
    NetParameter old;
    old.mutable_layer()->Swap(net_.mutable_layer());
    std::set<int> chosen;
    for (int i = 0; i < old.layer_size(); ++i) {
      if (chosen_.contains(i)) chosen.insert(net_.layer_size());
      net_.add_layer()->Swap(old.mutable_layer(i));
      const std::vector<std::string> own(net_.layer().rbegin()->top().begin(),
                                         net_.layer().rbegin()->top().end());
      for (const std::string& top : own) producers_[top] = net_.layer_size() - 1;
      for (const std::string& top : own) {
        const auto found = tops.find(top);
        if (found == tops.end()) continue;
        LayerParameter* relu = net_.add_layer();
        relu->set_name(found->second);
        relu->set_type("ReLU");
        relu->add_bottom(top);
        relu->add_top(found->second);
        producers_[found->second] = net_.layer_size() - 1;
        ranges_.erase(top);
        SetCut(top, relu);
      }
    }
    chosen_ = std::move(chosen);
    readers_.clear();
    for (int i = 0; i < net_.layer_size(); ++i) {
      for (const std::string& bottom : net_.layer(i).bottom()) readers_[bottom].push_back(i);
    }
  }

  // Sets the ranges of a ReLU, whose top has one, and of its input. The range between them counts
  // only if the ReLU is not fused.
  void SetCut(const std::string& bottom, LayerParameter* relu) {
    const Int8Range& range = ranges_.at(relu->top(0));
    const Int8Range both = RangeOf(range.max(), false);
    relu->clear_int8();
    *relu->mutable_int8()->add_bottom() = both;
    *relu->mutable_int8()->add_top() = range;
    SetTop(bottom, both);
  }

  void SetTop(const std::string& blob, const Int8Range& range) {
    LayerParameter* layer = net_.mutable_layer(producers_.at(blob));
    const auto place = std::ranges::find(layer->top(), blob) - layer->top().begin();
    auto* tops = layer->mutable_int8()->mutable_top();
    while (tops->size() <= static_cast<int>(place)) tops->Add();
    *tops->Mutable(static_cast<int>(place)) = range;
  }

  void SetRanges() {
    for (const int i : chosen_) {
      LayerParameter* layer = net_.mutable_layer(i);
      for (std::string& bottom : *layer->mutable_bottom()) {
        const RoundedBlob blob = rounded_.at(bottom);
        bottom = blob.source;
        *layer->mutable_int8()->add_bottom() = blob.range;
        SetTop(blob.source, blob.range);
      }
      const std::string& top = layer->top(0);
      if (HasRange(top)) SetTop(top, ranges_.at(top));
      const int relu = ReluAfter(top);
      if (relu < 0) continue;
      SetCut(top, net_.mutable_layer(relu));
    }
  }

  // Removes the layers that rounded for readers that now do it themselves.
  void RemoveUnread() {
    std::map<std::string, int> reads;
    for (const LayerParameter& layer : net_.layer()) {
      for (const std::string& bottom : layer.bottom()) ++reads[bottom];
    }
    std::vector<LayerParameter> kept;
    for (int i = net_.layer_size(); i-- > 0;) {
      LayerParameter* layer = net_.mutable_layer(i);
      const bool unread =
          layer->top_size() > 0 && std::ranges::all_of(layer->top(), [&](const std::string& top) {
            return readers_.contains(top) && reads[top] == 0;
          });
      if (unread && layer->bottom_size() > 0) {
        for (const std::string& bottom : layer->bottom()) --reads[bottom];
      } else {
        kept.push_back(std::move(*layer));
      }
    }
    net_.clear_layer();
    for (auto layer = kept.rbegin(); layer != kept.rend(); ++layer) {
      *net_.add_layer() = std::move(*layer);
    }
  }

  NetParameter& net_;
  std::map<std::string, std::vector<int>> readers_;
  std::map<std::string, int> producers_;
  std::map<std::string, RoundedBlob> rounded_;     // by name of the rounded blob
  std::map<std::string, Int8Range> ranges_;        // of blobs that are rounded
  std::map<std::string, std::vector<int>> heads_;  // first layers that round a blob
  std::set<std::string> unclear_;  // blobs with several ranges, or one that is no int8
  std::set<int> chosen_;           // layers that compute on bytes
  std::set<int> moved_;            // those of them whose range is that of their input
};

}  // namespace

void UseInt8(NetParameter* net) { Int8Net(net).Run(); }

}  // namespace crema
