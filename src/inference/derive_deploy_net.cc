#include "inference/derive_deploy_net.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "graph/graph.h"
#include "graph/replace_sources.h"
#include "inference/derive_heads.h"
#include "plan/plan.h"

namespace crema {
namespace {

NetState WithPhase(NetState state, Phase phase) {
  state.set_phase(phase);
  return state;
}

// DummyData often stands for constants, such as initial states.
bool ReadsSamples(const LayerParameter& layer) {
  return IsDataLayer(layer) && layer.type() != "DummyData";
}

// Returns the layers of `state`; data layers of phase TRAIN if that state has none; losses of phase
// TRAIN.
std::vector<TrainingLayer> LayersOf(const NetFile& training, const NetState& state,
                                    const Registry& registry) {
  const NetState train = WithPhase(state, TRAIN);
  const auto included = [&](const LayerParameter& layer) { return IsIncluded(layer, state); };
  bool has_data = false;
  for (const LayerParameter& layer : training.net.layer()) {
    has_data = has_data || (IsDataLayer(layer) && included(layer));
  }
  std::vector<TrainingLayer> layers;
  for (int i = 0; i < training.net.layer_size(); ++i) {
    const LayerParameter& layer = training.net.layer(i);
    if (included(layer)) {
      layers.push_back({.param = &layer, .index = i});
    } else if (IsIncluded(layer, train)) {
      const LayerType* type = registry.Find(layer.type());
      const bool loss = type != nullptr && type->default_loss_weight != 0;
      const bool data = !has_data && IsDataLayer(layer);
      if (loss || data) layers.push_back({.param = &layer, .index = i, .in_test = false});
    }
  }
  return layers;
}

// Removes the fields that only training reads.
LayerParameter ForDeployment(const LayerParameter& training) {
  LayerParameter layer = training;
  layer.clear_include();
  layer.clear_exclude();
  layer.clear_phase();
  layer.clear_loss_weight();
  layer.clear_propagate_down();
  layer.clear_blobs();
  bool named = false;
  for (ParamSpec& param : *layer.mutable_param()) {
    param.clear_lr_mult();
    param.clear_decay_mult();
    named = named || param.has_name();
  }
  if (!named) layer.clear_param();
  return layer;
}

// One blob that becomes an input of the deploy net.
struct NewInput {
  std::string blob;
  size_t data = 0;                         // its data layer
  const LayerParameter* folded = nullptr;  // the layer after the data layer that makes it, or null
  Shape shape = {};

  // Returns how its pixels are changed.
  const TransformationParameter& Transform(const std::vector<TrainingLayer>& layers) const {
    const bool converts = folded != nullptr && folded->type() == "PixelsToFloat";
    return (converts ? folded : layers[data].param)->transform_param();
  }
};

class Derivation {
 public:
  Derivation(const NetFile& training, const NetState& state,
             const std::map<std::string, Shape>& shapes, const Registry& registry)
      : training_(training),
        state_(state),
        shapes_(shapes),
        registry_(registry),
        layers_(LayersOf(training, state, registry)),
        heads_(FindHeads(training, layers_, registry)) {}

  DerivedNet Derive() {
    derived_.notes = std::move(heads_.notes);
    FindKept();
    FindInputs();
    FindShapes();
    WriteNet();
    if (inputs_.size() == 1) {
      SetPreprocessing(inputs_.front());
    } else {
      derived_.notes.push_back(
          StrCat("the net has ", inputs_.size(),
                 " inputs: mean and scale of its data layers are not part of it"));
    }
    return std::move(derived_);
  }

 private:
  const LayerParameter& Param(size_t layer) const { return *layers_[layer].param; }

  Where At(size_t layer) const {
    Where where = training_.source.Locate(StrCat("layer[", layers_[layer].index, "]"));
    where.layer = Param(layer).name();
    return where;
  }

  bool BecomesInput(size_t layer) const {
    if (!has_samples_ && IsDataLayer(Param(layer))) return true;
    return ReadsSamples(Param(layer));
  }

  // Marks the layers that heads depend on. Works on names from the end, as blobs are changed in
  // place.
  void FindKept() {
    has_samples_ = std::ranges::any_of(
        layers_, [](const TrainingLayer& layer) { return ReadsSamples(*layer.param); });
    kept_.assign(layers_.size(), false);
    std::map<std::string, size_t> live;  // by blob: a reader
    for (size_t n = layers_.size() + 1; n-- > 0;) {
      for (const Head& head : heads_.heads) {
        if (head.at == n) live.emplace(head.blob, n);
      }
      if (n == 0) break;
      const size_t i = n - 1;
      const LayerParameter& layer = Param(i);
      if (OnlyTrainsOrTests(layer, registry_)) continue;
      for (const std::string& top : layer.top()) {
        if (live.erase(top) > 0) kept_[i] = true;
      }
      if (!kept_[i]) continue;
      for (const std::string& bottom : layer.bottom()) live.emplace(bottom, i);
    }
    if (live.empty()) return;
    const auto& [blob, reader] = *live.begin();
    Fail(ErrorCode::kInvalidArgument,
         StrCat("reads '", blob, "', which no layer of phase TEST before it makes"),
         At(std::min(reader, layers_.size() - 1)));
  }

  std::vector<size_t> ReadersOf(const std::string& blob) const {
    std::vector<size_t> readers;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (kept_[i] && std::ranges::count(Param(i).bottom(), blob) > 0) readers.push_back(i);
    }
    return readers;
  }

  bool IsHead(const std::string& blob) const {
    return std::ranges::any_of(heads_.heads, [&](const Head& head) { return head.blob == blob; });
  }

  bool IsRead(const std::string& blob) const { return IsHead(blob) || !ReadersOf(blob).empty(); }

  // Returns the top that replaces the blob of a data layer as the input: the floats that
  // PixelsToFloat makes of bytes, and the only used part that Slice cuts off. Empty: none.
  std::string TopOfFolded(const LayerParameter& layer) const {
    if (layer.type() == "PixelsToFloat") return layer.top(0);
    if (layer.type() != "Slice") return "";
    std::vector<std::string> used;
    std::ranges::copy_if(layer.top(), std::back_inserter(used),
                         [&](const std::string& top) { return IsRead(top); });
    return used.size() == 1 ? used[0] : "";
  }

  void FindInputs() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!kept_[i] || !BecomesInput(i)) continue;
      kept_[i] = false;
      for (const std::string& top : Param(i).top()) {
        if (!IsRead(top)) continue;
        NewInput input{.blob = top, .data = i};
        const std::vector<size_t> readers = ReadersOf(top);
        if (readers.size() == 1 && !IsHead(top)) {
          const std::string folded = TopOfFolded(Param(readers[0]));
          if (!folded.empty()) {
            input.blob = folded;
            input.folded = &Param(readers[0]);
            kept_[readers[0]] = false;
          }
        }
        inputs_.push_back(std::move(input));
      }
    }
  }

  void CheckGivenShapes() const {
    std::vector<std::string> blobs;
    for (const NewInput& input : inputs_) blobs.push_back(input.blob);
    for (const auto& [blob, shape] : shapes_) {
      if (std::ranges::count(blobs, blob) > 0) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("a shape is given for '", blob, "', but the inputs of the derived net are ",
                  Join(blobs, ", ")),
           {.file = training_.source.file});
    }
  }

  [[noreturn]] void FailWithoutData() const {
    std::vector<std::string> unknown;
    for (const NewInput& input : inputs_) {
      if (!shapes_.contains(input.blob)) unknown.push_back(input.blob);
    }
    Fail(ErrorCode::kInvalidArgument,
         StrCat(
             "the data set does not exist, and its layer does not give the size of a sample: give "
             "the shape of ",
             Join(unknown, ", "), ", for example --shape=", unknown[0], "=1x3x32x32"),
         At(inputs_.front().data));
  }

  // Takes given shapes, and those of one sample of the data sets.
  void FindShapes() {
    CheckGivenShapes();
    NetParameter data;  // the layers that make the inputs
    std::set<size_t> added;
    for (const NewInput& input : inputs_) {
      if (shapes_.contains(input.blob)) continue;
      const LayerParameter& layer = Param(input.data);
      if (layer.type() == "Python") {
        Fail(ErrorCode::kUnsupported,
             StrCat("a Python layer makes the data, so that the shape of '", input.blob,
                    "' is unknown: give it (--shape=", input.blob, "=1x3x224x224)"),
             At(input.data));
      }
      if (added.insert(input.data).second) *data.add_layer() = ForDeployment(layer);
      if (input.folded != nullptr) *data.add_layer() = ForDeployment(*input.folded);
    }
    if (added.empty()) return TakeShapes(nullptr);
    try {
      ReplaceSources({}, registry_, &data);
    } catch (const Error&) {
      FailWithoutData();
    }
    std::vector<Problem> warnings;
    SourceMap source;
    source.file = training_.source.file;
    TakeShapes(MakePlan(data, source, state_, registry_, {.threads = 1}, &warnings).get());
  }

  // `plan` is that of the layers that make inputs without given shape; null: there are none.
  void TakeShapes(const Plan* plan) {
    for (NewInput& input : inputs_) {
      const auto given = shapes_.find(input.blob);
      if (given != shapes_.end()) {
        input.shape = given->second;
        continue;
      }
      const auto value = std::ranges::find(plan->values, input.blob, &PlannedValue::name);
      CREMA_CHECK(value != plan->values.end());
      input.shape = value->spec.shape;
      if (input.shape.axes() > 0) input.shape = input.shape.With(0, 1);
    }
  }

  void WriteNet() {
    NetParameter& net = derived_.net.net;
    derived_.net.source.file = training_.source.file;
    if (training_.net.has_name()) net.set_name(training_.net.name());
    if (training_.net.has_precision()) net.set_precision(training_.net.precision());
    for (const NewInput& input : inputs_) {
      LayerParameter* layer = net.add_layer();
      layer->set_name(input.blob);
      layer->set_type("Input");
      layer->add_top(input.blob);
      BlobShape* shape = layer->mutable_input_param()->add_shape();
      for (int axis = 0; axis < input.shape.axes(); ++axis) shape->add_dim(input.shape[axis]);
    }
    for (size_t i = 0; i <= layers_.size(); ++i) {
      for (const Head& head : heads_.heads) {
        if (head.at == i && head.layer) *net.add_layer() = *head.layer;
      }
      if (i < layers_.size() && kept_[i]) *net.add_layer() = ForDeployment(Param(i));
    }
    SilenceUnused();
  }

  // Adds Silence for blobs that only removed layers read, so that they do not become outputs.
  void SilenceUnused() {
    std::set<std::string> used;
    for (const LayerParameter& layer : derived_.net.net.layer()) {
      for (const std::string& bottom : layer.bottom()) used.insert(bottom);
    }
    for (const Head& head : heads_.heads) used.insert(head.output());
    LayerParameter silence;
    silence.set_name("unused");
    silence.set_type("Silence");
    for (const LayerParameter& layer : derived_.net.net.layer()) {
      for (const std::string& top : layer.top()) {
        if (used.insert(top).second) silence.add_bottom(top);
      }
    }
    if (silence.bottom_size() > 0) *derived_.net.net.add_layer() = silence;
  }

  void SetPreprocessing(const NewInput& input) {
    const TransformationParameter& transform = input.Transform(layers_);
    const Shape& shape = input.shape;
    if (shape.axes() != 4 || (shape[1] != 1 && shape[1] != 3)) return;
    Preprocessing& pixels = derived_.preprocessing;
    if (transform.has_scale()) pixels.scale = transform.scale();
    pixels.mean.assign(transform.mean_value().begin(), transform.mean_value().end());
    const auto channels = static_cast<size_t>(shape[1]);
    if (pixels.mean.size() == 1) pixels.mean.resize(channels, pixels.mean[0]);
    if (!transform.mean_file().empty()) {
      pixels.mean = ReadMean(transform.mean_file(), Shape{shape[1], shape[2], shape[3]});
    }
    SetFit(input, transform);
  }

  // Takes the resizing, crop or letterbox of the data layer.
  void SetFit(const NewInput& input, const TransformationParameter& transform) {
    const Shape& shape = input.shape;
    Preprocessing& pixels = derived_.preprocessing;
    const ResizeParameter& resize = transform.resize_param();
    if (transform.has_resize_param() && resize.interp_mode_size() == 1) {
      pixels.interpolation =
          static_cast<Interpolation>(resize.interp_mode(0) - ResizeParameter::LINEAR);
    }
    const bool crops = transform.crop_size() > 0 || transform.crop_h() > 0;
    if (crops) {
      const std::optional<Shape> whole = ShapeBeforeCrop(input);
      if (whole && *whole == shape) return;
      if (whole) {
        pixels.fit = ImageFit::kCrop;
        pixels.resize_height = static_cast<int>((*whole)[2]);
        pixels.resize_width = static_cast<int>((*whole)[3]);
        if (Param(input.data).type() != "ImageData") {
          derived_.notes.push_back(StrCat("images are resized to ", (*whole)[2], "x", (*whole)[3],
                                          ", the size of the first sample of the data set, and "
                                          "cropped; --fit and --resize change this"));
        }
        return;
      }
    } else if (!transform.has_resize_param() || resize.resize_mode() == ResizeParameter::WARP) {
      return;
    } else if (resize.resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD &&
               resize.pad_mode() == ResizeParameter::CONSTANT && resize.pad_value_size() <= 1) {
      const float pad = resize.pad_value_size() == 1 ? resize.pad_value(0) : 0;
      pixels.fit = ImageFit::kLetterbox;
      pixels.pad = static_cast<int>(std::clamp(std::round(pad), 0.F, 255.F));
      return;
    }
    derived_.notes.push_back(StrCat("training ",
                                    crops ? "crops images" : "keeps the aspect of images",
                                    "; the deploy net resizes whole images to ", shape[2], "x",
                                    shape[3], "; --fit and --resize change this"));
  }

  // Returns the shape of samples before the crop: of the first one of a data set, or that ImageData
  // resizes to. Nothing if the data set does not exist, or if ImageData does not resize.
  std::optional<Shape> ShapeBeforeCrop(const NewInput& input) const {
    const LayerParameter& layer = Param(input.data);
    const ImageDataParameter& images = layer.image_data_param();
    if (shapes_.contains(input.blob) || input.folded != nullptr) return std::nullopt;
    if (layer.type() == "ImageData") {
      if (images.new_height() == 0 || images.new_width() == 0) return std::nullopt;
      return Shape{1, input.shape[1], images.new_height(), images.new_width()};
    }
    if (layer.type() != "Data") return std::nullopt;
    NetParameter data;
    *data.add_layer() = ForDeployment(layer);
    for (const char* field : {"crop_size", "crop_h", "crop_w"}) {
      TransformationParameter* transform = data.mutable_layer(0)->mutable_transform_param();
      transform->GetReflection()->ClearField(transform,
                                             transform->GetDescriptor()->FindFieldByName(field));
    }
    try {
      ReplaceSources({}, registry_, &data);
      std::vector<Problem> warnings;
      const auto plan = MakePlan(data, {}, state_, registry_, {.threads = 1}, &warnings);
      const auto value = std::ranges::find(plan->values, input.blob, &PlannedValue::name);
      if (value == plan->values.end() || value->spec.shape.axes() != 4) return std::nullopt;
      return value->spec.shape.With(0, 1);
    } catch (const Error& error) {  // no data set; or a mean of the size of the crop
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      return std::nullopt;
    }
  }

  const NetFile& training_;
  const NetState state_;
  const std::map<std::string, Shape>& shapes_;
  const Registry& registry_;
  const std::vector<TrainingLayer> layers_;
  Heads heads_;
  bool has_samples_ = false;  // a layer reads a data set or takes samples from a program
  std::vector<bool> kept_;    // by layer
  std::vector<NewInput> inputs_;
  DerivedNet derived_;
};

}  // namespace

bool IsTrainingNet(const NetParameter& net, const NetState& state) {
  const NetState train = WithPhase(state, TRAIN);
  std::set<std::string> made;
  std::set<std::string> made_in_training;
  std::set<std::string> missing;
  for (const LayerParameter& layer : net.layer()) {
    // The graph reports layers with both.
    if (layer.include_size() > 0 && layer.exclude_size() > 0) return false;
    if (!IsIncluded(layer, state)) {
      if (!IsDataLayer(layer) || !IsIncluded(layer, train)) continue;
      made_in_training.insert(layer.top().begin(), layer.top().end());
      continue;
    }
    if (IsDataLayer(layer)) return true;
    for (const std::string& bottom : layer.bottom()) {
      if (!made.contains(bottom)) missing.insert(bottom);
    }
    made.insert(layer.top().begin(), layer.top().end());
  }
  return std::ranges::any_of(
      missing, [&](const std::string& blob) { return made_in_training.contains(blob); });
}

DerivedNet DeriveDeployNet(const NetFile& training, const NetState& state,
                           const std::map<std::string, Shape>& shapes, const Registry& registry) {
  return Derivation(training, state, shapes, registry).Derive();
}

}  // namespace crema
