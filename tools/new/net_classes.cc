#include "new/net_classes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/caffemodel.h"

namespace crema::tools {
namespace {

bool Has(const google::protobuf::RepeatedPtrField<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the index of the last layer before `before` that makes `blob`; -1: none.
int ProducerOf(const NetParameter& net, const std::string& blob, int before) {
  for (int i = before - 1; i >= 0; --i) {
    if (Has(net.layer(i).top(), blob)) return i;
  }
  return -1;
}

// Walks from scores back to the layers that make a value for each class, and resizes these.
class ClassWalk {
 public:
  // `old` is the present number of classes; 0: that of the first layer that is met.
  ClassWalk(int old, int classes, NetParameter* net) : old_(old), classes_(classes), net_(*net) {}

  void Visit(const std::string& blob, int before) {
    const int index = ProducerOf(net_, blob, before);
    if (index < 0 || !seen_.insert(index).second) return;
    LayerParameter& layer = *net_.mutable_layer(index);
    if (layer.type() == "InnerProduct") {
      Resize(layer, layer.mutable_inner_product_param());
    } else if (layer.type() == "Convolution" || layer.type() == "Deconvolution") {
      Resize(layer, layer.mutable_convolution_param());
      if (layer.type() == "Deconvolution") Visit(layer.bottom(0), index);
    } else {
      const bool merges = layer.type() == "Eltwise" || layer.type() == "Concat";
      const int bottoms = std::min(merges ? layer.bottom_size() : 1, layer.bottom_size());
      for (int i = 0; i < bottoms; ++i) Visit(layer.bottom(i), index);
    }
  }
  const std::vector<std::string>& resized() const { return resized_; }

 private:
  template <typename Param>
  void Resize(const LayerParameter& layer, Param* param) {
    const int outputs = static_cast<int>(param->num_output());
    if (old_ == 0) old_ = outputs;
    if (outputs % old_ != 0) {
      Fail(ErrorCode::kUnsupported,
           StrCat("layer '", layer.name(), "' has ", outputs, " outputs, which are not values for ",
                  old_, " classes: use another --model"));
    }
    param->set_num_output(static_cast<uint32_t>(outputs / old_ * classes_));
    resized_.push_back(layer.name());
  }

  int old_;
  const int classes_;
  NetParameter& net_;
  std::set<int> seen_;
  std::vector<std::string> resized_;
};

void RemoveMetricsThatAllPass(int classes, NetParameter* net) {
  auto* layers = net->mutable_layer();
  for (int i = layers->size() - 1; i >= 0; --i) {
    const LayerParameter& layer = layers->Get(i);
    const bool passes =
        layer.type() == "Accuracy" && static_cast<int>(layer.accuracy_param().top_k()) >= classes;
    if (passes) layers->DeleteSubrange(i, 1);
  }
}

// Sets the number of classes in the layers of a detector.
void SetDetectorFields(int old, int classes, NetParameter* net) {
  const auto count = static_cast<uint32_t>(classes);
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.has_multibox_loss_param()) {
      layer.mutable_multibox_loss_param()->set_num_classes(count);
    }
    if (layer.has_detection_output_param()) {
      layer.mutable_detection_output_param()->set_num_classes(count);
    }
    if (layer.has_detection_evaluate_param()) {
      layer.mutable_detection_evaluate_param()->set_num_classes(count);
    }
    if (layer.type() != "Reshape") continue;
    BlobShape* shape = layer.mutable_reshape_param()->mutable_shape();
    const int last = shape->dim_size() - 1;
    if (last >= 0 && shape->dim(last) == old) shape->set_dim(last, classes);
  }
}

// Returns the number of outputs of the first parameter of a layer in a weights file.
int64_t OutputsOf(const LayerParameter& layer) {
  const BlobProto& blob = layer.blobs(0);
  if (blob.has_shape()) return blob.shape().dim_size() > 0 ? blob.shape().dim(0) : 0;
  return blob.num();
}

uint32_t OutputsInNet(const LayerParameter& layer) {
  return layer.type() == "InnerProduct" ? layer.inner_product_param().num_output()
                                        : layer.convolution_param().num_output();
}

bool Differs(const LayerParameter& layer, const NetParameter& weights) {
  return std::ranges::any_of(weights.layer(), [&](const LayerParameter& other) {
    return other.name() == layer.name() && other.blobs_size() > 0 &&
           OutputsOf(other) != static_cast<int64_t>(OutputsInNet(layer));
  });
}

void LearnFaster(LayerParameter* layer) {
  constexpr float kFactor = 10;
  while (layer->param_size() < 2) layer->add_param();
  for (ParamSpec& param : *layer->mutable_param()) param.set_lr_mult(kFactor * param.lr_mult());
}

}  // namespace

std::vector<std::string> SetClasses(int classes, NetParameter* net) {
  std::vector<std::string> resized;
  for (int i = 0; i < net->layer_size(); ++i) {
    const LayerParameter layer = net->layer(i);
    const bool boxes = layer.type() == "MultiBoxLoss";
    if (!boxes && layer.type() != "SoftmaxWithLoss") continue;
    const int old = boxes ? static_cast<int>(layer.multibox_loss_param().num_classes()) : 0;
    ClassWalk walk(old, classes, net);
    walk.Visit(layer.bottom(boxes ? 1 : 0), i);
    if (walk.resized().empty()) {
      Fail(ErrorCode::kUnsupported, StrCat("no layer that learns makes the scores of loss '",
                                           layer.name(), "': use another --model"));
    }
    resized.insert(resized.end(), walk.resized().begin(), walk.resized().end());
    if (boxes) SetDetectorFields(old, classes, net);
  }
  RemoveMetricsThatAllPass(classes, net);
  return resized;
}

std::vector<std::string> RenameUnlikeWeights(const std::vector<std::string>& names,
                                             const std::string& file, NetParameter* net) {
  const NetParameter weights = ReadCaffemodel(file);
  std::vector<std::string> renamed;
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (std::ranges::find(names, layer.name()) == names.end() || !Differs(layer, weights)) continue;
    layer.set_name(layer.name() + "_new");
    LearnFaster(&layer);
    renamed.push_back(layer.name());
  }
  return renamed;
}

}  // namespace crema::tools
