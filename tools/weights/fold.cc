#include "weights/fold.h"

#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "graph/graph.h"

namespace crema::tools {
namespace {

using Values = std::vector<double>;

// Keeps the type of the blob.
void SetValues(const Values& values, BlobProto* blob) {
  if (blob->double_data_size() > 0) {
    blob->mutable_double_data()->Assign(values.begin(), values.end());
  } else {
    blob->mutable_data()->Assign(values.begin(), values.end());
  }
}

// Value * scale + shift, for each channel.
struct Affine {
  Values scale;
  Values shift;
};

bool TakesAffine(const LayerParameter& layer) {
  static const std::set<std::string> kTypes = {"Convolution", "ConvolutionDepthwise",
                                               "DepthwiseConvolution", "InnerProduct"};
  return kTypes.contains(layer.type());
}

int64_t OutputsOf(const LayerParameter& layer) {
  return layer.type() == "InnerProduct" ? layer.inner_product_param().num_output()
                                        : layer.convolution_param().num_output();
}

bool HasBias(const LayerParameter& layer) {
  return layer.type() == "InnerProduct" ? layer.inner_product_param().bias_term()
                                        : layer.convolution_param().bias_term();
}

// Returns why nothing can be folded into the layer; empty if it can.
std::string WhyNotInto(const LayerParameter& layer) {
  if (!TakesAffine(layer)) return StrCat("'", layer.name(), "' is of type ", layer.type());
  const ConvolutionParameter& convolution = layer.convolution_param();
  const InnerProductParameter& product = layer.inner_product_param();
  if (convolution.axis() != 1 || product.axis() != 1) return "the layer before it has another axis";
  if (product.transpose()) return "the layer before it has transposed weights";
  if (convolution.relu() || product.relu() ||
      convolution.fusion_type() != ConvolutionParameter::NONE_FUSION) {
    return "the layer before it applies more than its weights";
  }
  if (layer.bottom_size() != 1 || layer.top_size() != 1) {
    return StrCat("'", layer.name(), "' runs on several blobs");
  }
  for (const ParamSpec& param : layer.param()) {
    if (!param.name().empty()) return StrCat("'", layer.name(), "' shares its weights");
  }
  return "";
}

std::string WhyNotNorm(const LayerParameter& norm) {
  const BatchNormParameter& param = norm.batch_norm_param();
  if (param.scale_bias()) return "it has a scale and a bias of its own (scale_bias)";
  if (param.relu()) return "it applies a ReLU";
  if (param.has_use_global_stats() && !param.use_global_stats()) {
    return "use_global_stats is false, so its statistics are those of each batch";
  }
  return norm.top_size() == 1 ? "" : "it has several outputs";
}

bool IsChannelScale(const LayerParameter& layer) {
  const ScaleParameter& param = layer.scale_param();
  return layer.type() == "Scale" && layer.bottom_size() == 1 && layer.top_size() == 1 &&
         param.axis() == 1 && param.num_axes() == 1;
}

class Folder {
 public:
  Folder(const NetFile& file, const StoredWeights& weights)
      : file_(weights), net_(file.net), weights_(weights.net) {
    TakeTestLayers();
    FindReaders();
  }

  FoldedNet Run() {
    for (int i = 0; i < net_.layer_size(); ++i) {
      if (net_.layer(i).type() == "BatchNorm") Fold(i);
    }
    if (gone_.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("no BatchNorm can be folded into a layer before it:\n",
                  report_.empty() ? "  the net has none\n" : report_));
    }
    RemoveFolded();
    return {std::move(net_), std::move(weights_), std::move(report_)};
  }

 private:
  void TakeTestLayers() {
    NetState state = net_.state();
    state.set_phase(TEST);
    const NetParameter all = net_;
    net_.clear_layer();
    for (const LayerParameter& layer : all.layer()) {
      if (!IsIncluded(layer, state)) continue;
      LayerParameter* kept = net_.add_layer();
      *kept = layer;
      kept->clear_include();
      kept->clear_exclude();
    }
  }

  // Blobs change their maker where a layer writes in place.
  void FindReaders() {
    std::map<std::string, int> maker;
    readers_.resize(static_cast<size_t>(net_.layer_size()));
    maker_of_input_.resize(readers_.size(), -1);
    for (int i = 0; i < net_.layer_size(); ++i) {
      for (const std::string& bottom : net_.layer(i).bottom()) {
        const auto found = maker.find(bottom);
        if (found == maker.end()) continue;
        readers_[static_cast<size_t>(found->second)].push_back(i);
        maker_of_input_[static_cast<size_t>(i)] = found->second;
      }
      for (const std::string& top : net_.layer(i).top()) maker[top] = i;
    }
  }

  void Stays(const LayerParameter& norm, const std::string& why) {
    report_ += StrCat("  ", norm.name(), " stays: ", why, "\n");
  }

  void Fold(int index) {
    const LayerParameter& norm = net_.layer(index);
    const int into = maker_of_input_[static_cast<size_t>(index)];
    if (into < 0) return Stays(norm, "no layer makes its input");
    const LayerParameter& layer = net_.layer(into);
    std::string why = WhyNotNorm(norm);
    if (why.empty()) why = WhyNotInto(layer);
    if (why.empty() && readers_[static_cast<size_t>(into)].size() > 1) {
      why = StrCat("other layers read '", layer.top(0), "', too");
    }
    int scale = -1;
    const std::vector<int>& readers = readers_[static_cast<size_t>(index)];
    if (readers.size() == 1 && IsChannelScale(net_.layer(readers[0]))) scale = readers[0];
    const int last = scale < 0 ? index : scale;
    const std::string top = net_.layer(last).top(0);
    if (!why.empty()) return Stays(norm, why);
    FoldInto(into, AffineOf(norm, scale));
    net_.mutable_layer(into)->set_top(0, top);
    gone_.insert(index);
    if (scale >= 0) gone_.insert(scale);
    report_ += StrCat("  ", norm.name(), scale < 0 ? "" : " and " + net_.layer(scale).name(),
                      " went into ", net_.layer(into).name(), "\n");
  }

  // Returns the values of a blob of a layer, `count` of them unless that is 0.
  Values Blob(const LayerParameter& layer, int index, size_t count) const {
    const LayerParameter& stored = FindLayer(file_, layer.name());
    Values values;
    if (index < stored.blobs_size()) values = ValuesOf(stored.blobs(index));
    if (!values.empty() && (count == 0 || values.size() == count)) return values;
    FailForNet(layer, StrCat("blob ", index, " has ", values.size(), " values",
                             count > 0 ? StrCat(", expected ", count) : ""));
  }

  [[noreturn]] void FailForNet(const LayerParameter& layer, const std::string& problem) const {
    Fail(ErrorCode::kInvalidArgument, problem + ": these are not weights of this net",
         {.file = file_.path, .layer = layer.name()});
  }

  Affine AffineOf(const LayerParameter& norm, int scale_index) const {
    const Values mean = Blob(norm, 0, 0);
    const Values variance = Blob(norm, 1, mean.size());
    const double factor = Blob(norm, 2, 1)[0];
    const double share = factor == 0 ? 0 : 1 / factor;
    Affine affine{.scale = Values(mean.size(), 1), .shift = Values(mean.size(), 0)};
    if (scale_index >= 0) {
      const LayerParameter& scale = net_.layer(scale_index);
      affine.scale = Blob(scale, 0, mean.size());
      if (scale.scale_param().bias_term()) affine.shift = Blob(scale, 1, mean.size());
    }
    for (size_t c = 0; c < mean.size(); ++c) {
      const double eps = static_cast<double>(norm.batch_norm_param().eps());
      affine.scale[c] /= std::sqrt(variance[c] * share + eps);
      affine.shift[c] -= mean[c] * share * affine.scale[c];
    }
    return affine;
  }

  void FoldInto(int index, const Affine& affine) {
    LayerParameter* layer = net_.mutable_layer(index);
    const size_t channels = affine.scale.size();
    Values weights = Blob(*layer, 0, 0);
    if (OutputsOf(*layer) != static_cast<int64_t>(channels) || weights.size() % channels != 0) {
      FailForNet(*layer, StrCat("blob 0 has ", weights.size(), " values for ", OutputsOf(*layer),
                                " outputs, and the BatchNorm after it ", channels, " channels"));
    }
    Values bias(channels, 0);
    if (HasBias(*layer)) bias = Blob(*layer, 1, channels);
    const size_t row = weights.size() / channels;
    for (size_t i = 0; i < weights.size(); ++i) weights[i] *= affine.scale[i / row];
    for (size_t c = 0; c < channels; ++c) bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
    LayerParameter* stored = Stored(layer->name());
    SetValues(weights, stored->mutable_blobs(0));
    if (!HasBias(*layer)) AddBias(channels, layer, stored);
    SetValues(bias, stored->mutable_blobs(1));
  }

  static void AddBias(size_t channels, LayerParameter* layer, LayerParameter* stored) {
    for (LayerParameter* with : {layer, stored}) {
      if (layer->type() == "InnerProduct") {
        with->mutable_inner_product_param()->clear_bias_term();
      } else {
        with->mutable_convolution_param()->clear_bias_term();
      }
    }
    BlobProto* bias = stored->add_blobs();
    bias->mutable_shape()->add_dim(static_cast<int64_t>(channels));
    if (stored->blobs(0).double_data_size() > 0) bias->add_double_data(0);
  }

  LayerParameter* Stored(const std::string& name) {
    for (LayerParameter& layer : *weights_.mutable_layer()) {
      if (layer.name() == name) return &layer;
    }
    CREMA_CHECK(false);
    return nullptr;
  }

  void RemoveFolded() {
    std::set<std::string> names;
    NetParameter net = net_;
    net.clear_layer();
    for (int i = 0; i < net_.layer_size(); ++i) {
      if (gone_.contains(i)) {
        names.insert(net_.layer(i).name());
      } else {
        *net.add_layer() = net_.layer(i);
      }
    }
    net_ = std::move(net);
    NetParameter weights = weights_;
    weights.clear_layer();
    for (const LayerParameter& layer : weights_.layer()) {
      if (!names.contains(layer.name())) *weights.add_layer() = layer;
    }
    weights_ = std::move(weights);
  }

  const StoredWeights& file_;
  NetParameter net_;
  NetParameter weights_;
  std::vector<std::vector<int>> readers_;  // of the outputs of each layer
  std::vector<int> maker_of_input_;        // of each layer; -1: none
  std::set<int> gone_;
  std::string report_;
};

}  // namespace

FoldedNet FoldBatchNorms(const NetFile& file, const StoredWeights& weights) {
  return Folder(file, weights).Run();
}

}  // namespace crema::tools
