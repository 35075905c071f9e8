#include "weights/edit.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/blob_proto.h"

namespace crema::tools {
namespace {

struct Pair {
  std::string from;
  std::string to;
};

// Parses "A=B"; without '=' both are A if `alone` is allowed.
Pair ParsePair(const std::string& text, bool alone) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos && alone && !text.empty()) return {text, text};
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", text, "' is not ", alone ? "LAYER or LAYER=NEW" : "OLD=NEW"));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

LayerParameter* LayerNamed(NetParameter* net, const std::string& name) {
  auto* const layers = net->mutable_layer();
  const auto found = std::find_if(layers->begin(), layers->end(),
                                  [&](const LayerParameter& l) { return l.name() == name; });
  return found == layers->end() ? nullptr : &*found;
}

std::string ShapeText(const LayerParameter& layer, int blob) {
  return blob < layer.blobs_size() ? ToString(ShapeOf(layer.blobs(blob))) : "missing";
}

// Adds a problem for each blob whose shape differs.
void CompareShapes(const LayerParameter& a, const LayerParameter& b, const StoredWeights& of_a,
                   const StoredWeights& of_b, std::vector<Problem>* problems) {
  for (int i = 0; i < std::max(a.blobs_size(), b.blobs_size()); ++i) {
    const std::string first = ShapeText(a, i);
    const std::string second = ShapeText(b, i);
    if (first == second) continue;
    problems->push_back(
        {ErrorCode::kInvalidArgument,
         {.layer = b.name()},
         StrCat("blob ", i, " is ", first, " in ", of_a.path, " and ", second, " in ", of_b.path)});
  }
}

std::vector<Pair> PairsToCopy(const StoredWeights& from, StoredWeights* into,
                              std::span<const std::string> layers) {
  std::vector<Pair> pairs;
  std::set<std::string> names;
  for (const std::string& text : layers) {
    pairs.push_back(ParsePair(text, true));
    if (names.insert(pairs.back().to).second) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("two layers would be called '", pairs.back().to, "'; give each its own name"));
  }
  if (!pairs.empty()) return pairs;
  for (const LayerParameter& layer : from.net.layer()) {
    if (LayerNamed(&into->net, layer.name()) != nullptr) {
      pairs.push_back({layer.name(), layer.name()});
    }
  }
  if (!pairs.empty()) return pairs;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(from.path, " and ", into->path,
              " have no layer in common; say which becomes which: LAYER=NEW"));
}

void CheckSameLayers(StoredWeights* a, StoredWeights* b) {
  std::vector<Problem> problems;
  const auto missing = [&](const LayerParameter& layer, const StoredWeights& file) {
    problems.push_back({ErrorCode::kInvalidArgument,
                        {.layer = layer.name()},
                        StrCat("is not in ", file.path, "; all files need the same layers")});
  };
  for (const LayerParameter& layer : a->net.layer()) {
    const LayerParameter* other = LayerNamed(&b->net, layer.name());
    if (other == nullptr) {
      missing(layer, *b);
    } else {
      CompareShapes(layer, *other, *a, *b, &problems);
    }
  }
  for (const LayerParameter& layer : b->net.layer()) {
    if (LayerNamed(&a->net, layer.name()) == nullptr) missing(layer, *a);
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

}  // namespace

NetParameter RenameLayers(StoredWeights weights, std::span<const std::string> rules) {
  std::map<std::string, std::string> names;
  for (const std::string& rule : rules) {
    const Pair pair = ParsePair(rule, false);
    FindLayer(weights, pair.from);
    if (names.emplace(pair.from, pair.to).second) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("'", pair.from, "' is renamed twice"));
  }
  std::set<std::string> seen;
  for (LayerParameter& layer : *weights.net.mutable_layer()) {
    const auto found = names.find(layer.name());
    if (found != names.end()) layer.set_name(found->second);
    if (seen.insert(layer.name()).second) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("two layers would be called '", layer.name(), "'; rename the other one, too"));
  }
  return std::move(weights.net);
}

CopiedLayers CopyLayers(const StoredWeights& from, StoredWeights into,
                        std::span<const std::string> layers) {
  CopiedLayers copied;
  std::vector<Problem> problems;
  for (const Pair& pair : PairsToCopy(from, &into, layers)) {
    const LayerParameter& source = FindLayer(from, pair.from);
    LayerParameter* target = LayerNamed(&into.net, pair.to);
    if (target == nullptr) {
      target = into.net.add_layer();
      *target = source;
      target->set_name(pair.to);
    } else {
      CompareShapes(source, *target, from, into, &problems);
      *target->mutable_blobs() = source.blobs();
    }
    copied.names.push_back(pair.to);
  }
  if (!problems.empty()) throw Error(std::move(problems));
  copied.net = std::move(into.net);
  return copied;
}

void WeightsMean::Add(StoredWeights weights) {
  const bool is_first = count_++ == 0;
  if (is_first) {
    first_ = std::move(weights);
  } else {
    CheckSameLayers(&first_, &weights);
  }
  size_t index = 0;
  for (const LayerParameter& layer : first_.net.layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i, ++index) {
      if (is_first) {
        sums_.emplace_back(static_cast<size_t>(DataCount(layer.blobs(i))), 0);
      }
      const BlobProto& blob =
          is_first ? layer.blobs(i) : LayerNamed(&weights.net, layer.name())->blobs(i);
      if (DataCount(blob) == 0) continue;
      const std::vector<double> values = ValuesOf(blob);
      for (size_t k = 0; k < values.size(); ++k) sums_[index][k] += values[k];
    }
  }
}

NetParameter WeightsMean::Take() {
  size_t index = 0;
  for (LayerParameter& layer : *first_.net.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      const std::vector<double>& sum = sums_[index++];
      for (size_t k = 0; k < sum.size(); ++k) {
        const double mean = sum[k] / count_;
        if (blob.double_data_size() > 0) {
          blob.set_double_data(static_cast<int>(k), mean);
        } else {
          blob.set_data(static_cast<int>(k), static_cast<float>(mean));
        }
      }
    }
  }
  return std::move(first_.net);
}

}  // namespace crema::tools
