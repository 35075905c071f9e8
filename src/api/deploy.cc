// The C++ interface, with its own types.
#include "crema/deploy.h"

#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "graph/plugin.h"
#include "inference/cascade.h"
#include "inference/classifier.h"
#include "inference/detector.h"
#include "inference/image_input.h"
#include "inference/model.h"
#include "inference/segmenter.h"
#include "onnx/import.h"
#include "runtime/gpu.h"

namespace crema::deploy {
namespace {

Code CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return Code::kInvalidArgument;
    case ErrorCode::kNotFound:
      return Code::kNotFound;
    case ErrorCode::kUnsupported:
      return Code::kUnsupported;
    case ErrorCode::kDataLoss:
      return Code::kDataLoss;
    case ErrorCode::kIoFailure:
      return Code::kIo;
    case ErrorCode::kOutOfMemory:
      return Code::kOutOfMemory;
    case ErrorCode::kDeviceFailure:
      return Code::kDevice;
    default:
      return Code::kInternal;
  }
}

// Converts all exceptions to Error.
template <typename Body>
auto Translated(Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const crema::Error& error) {
    throw Error(CodeOf(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    throw Error(Code::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    throw Error(Code::kInternal, error.what());
  }
}

GrowingRegistry& Layers() {
  static GrowingRegistry registry(BuiltinRegistry());
  return registry;
}

ModelOptions Inner(const Options& options) {
  constexpr int kMostThreads = 1024;  // OpenMP ends the process if it cannot start the threads
  if (options.threads < 1 || options.threads > kMostThreads) {
    throw Error(Code::kInvalidArgument, "threads is " + std::to_string(options.threads) +
                                            ", expected 1 to " + std::to_string(kMostThreads));
  }
  ModelOptions inner;
  inner.threads = options.threads;
  if (options.gpu >= 0) inner.device = OpenGpu(options.gpu);
  return inner;
}

std::vector<TensorInfo> InfosOf(const std::vector<BlobInfo>& blobs) {
  std::vector<TensorInfo> infos;
  for (const BlobInfo& blob : blobs) {
    infos.push_back(
        {blob.name, blob.dtype == DType::kU8 ? Type::kUInt8 : Type::kFloat32, blob.shape});
  }
  return infos;
}

ConstTensorView ViewOf(const Tensor& tensor) {
  if (tensor.type != Type::kFloat32 && tensor.type != Type::kUInt8) {
    throw Error(Code::kInvalidArgument, "a tensor of an unknown type");
  }
  return {tensor.data, Shape(std::span<const int64_t>(tensor.shape)),
          tensor.type == Type::kUInt8 ? DType::kU8 : DType::kF32};
}

std::shared_ptr<const crema::Model> OpenOnnx(const std::string& path, const Options& options) {
  ImportedNet imported = ImportOnnx(path, {.int8 = options.gpu < 0});  // GPUs have no int8
  NetFile file;
  file.net = std::move(imported.net);
  ModelCard card = std::move(imported.card);
  card.name = file.net.name();
  return crema::Model::Make(file, {}, card, Inner(options), Layers().Now(), NullSink());
}

Image Decoded(const void* image, size_t bytes, ColorMode mode) {
  Image decoded;
  DecodeImage(std::string_view(static_cast<const char*>(image), bytes), mode, "the image",
              &decoded);
  return decoded;
}

Detection DetectionOf(const FoundBox& found, const std::vector<std::string>& labels) {
  const auto index = static_cast<size_t>(found.label);
  Detection detection{found.label,
                      static_cast<float>(found.score),
                      index < labels.size() ? labels[index] : "",
                      static_cast<float>(found.box.xmin),
                      static_cast<float>(found.box.ymin),
                      static_cast<float>(found.box.xmax),
                      static_cast<float>(found.box.ymax),
                      {}};
  for (const crema::KeyPoint& point : found.keypoints) {
    detection.keypoints.push_back({static_cast<float>(point.x), static_cast<float>(point.y)});
  }
  return detection;
}

// Several files with commas between them, unless that is the name of one.
std::vector<std::string> FilesIn(const std::string& weights) {
  std::error_code ignored;
  if (std::filesystem::exists(weights, ignored)) return {weights};
  std::vector<std::string> files;
  for (const std::string& file : Split(weights, ',')) files.emplace_back(Trim(file));
  return files;
}

}  // namespace

const char* Version() noexcept { return CREMA_VERSION; }

void LoadPlugin(const std::string& path) {
  Translated([&] { Layers().LoadPlugin(path); });
}

Error::Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
Error::~Error() = default;

struct Model::Impl {
  explicit Impl(std::shared_ptr<const crema::Model> opened)
      : model(std::move(opened)),
        card(model->card()),
        inputs(InfosOf(model->inputs())),
        outputs(InfosOf(model->outputs())) {}
  explicit Impl(std::unique_ptr<const Cascade> opened) : cascade(std::move(opened)) {
    card.task = "detect";
  }

  std::shared_ptr<const crema::Model> model;  // null: a cascade
  std::unique_ptr<const Cascade> cascade;
  ModelCard card;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
};

Model::Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Model Model::Open(const std::string& path, const Options& options) {
  return Translated([&] {
    return Model(std::make_shared<const Impl>(
        path.ends_with(".onnx")
            ? OpenOnnx(path, options)
            : crema::Model::Open(path, Inner(options), Layers().Now(), NullSink())));
  });
}

Model Model::FromCaffe(const std::string& net, const std::string& weights, const Options& options) {
  return Translated([&] {
    NetFile file = ReadNet(net);
    ModelCard card;
    card.name = file.net.name();
    PrepareRegionNet(&file, &card);
    return Model(std::make_shared<const Impl>(crema::Model::Make(
        file, {.paths = FilesIn(weights)}, card, Inner(options), Layers().Now(), NullSink())));
  });
}

Model Model::OpenCascade(const std::string& path, const Options& options) {
  return Translated([&] {
    return Model(std::make_shared<const Impl>(std::make_unique<const Cascade>(
        path, Layers().Now(), CascadeOptions{.model = Inner(options), .open_onnx = OpenOnnxNet},
        NullSink())));
  });
}

const std::string& Model::name() const { return impl_->card.name; }
const std::string& Model::task() const { return impl_->card.task; }
const std::vector<std::string>& Model::labels() const { return impl_->card.labels; }
const std::vector<TensorInfo>& Model::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Model::outputs() const { return impl_->outputs; }
bool Model::Batches() const { return impl_->model && impl_->model->Batches(); }

struct Runner::Impl {
  explicit Impl(const Model& of) : model(of.impl_) {
    if (model->cascade) {
      cascade.emplace(*model->cascade);
    } else {
      runner.emplace(model->model);
    }
  }

  // Throws for a cascade.
  ModelRunner& Net() {
    if (runner) return *runner;
    throw Error(Code::kInvalidArgument,
                "the model is a cascade: it detects objects in images only");
  }

  std::shared_ptr<const Model::Impl> model;
  std::optional<ModelRunner> runner;  // or
  std::optional<CascadeRunner> cascade;
  // Made by the first Classify, whose worker has a session of its own.
  std::unique_ptr<const Classifier> classifier;
  std::unique_ptr<Classifier::Worker> classifying;
  std::unique_ptr<const Detector> detector;    // made by the first Detect
  std::unique_ptr<const Segmenter> segmenter;  // made by the first Segment

  struct PlacedImage {
    int height = 0;  // of the image
    int width = 0;
    ImagePlacement place;  // in the input
  };
  // Runs the net on an image file.
  PlacedImage RunImage(const ImageModel& images, const void* image, size_t bytes);
  std::vector<Prediction> Best(std::span<const float> scores, size_t most) const;
  std::vector<FoundBox> Boxes(const void* image, size_t bytes, std::optional<double> confidence);
};

Runner::Impl::PlacedImage Runner::Impl::RunImage(const ImageModel& images, const void* image,
                                                 size_t bytes) {
  const Preprocessing& preprocessing = model->card.preprocessing;
  const Image decoded = Decoded(image, bytes, images.color_mode());
  ImageInputs inputs;
  inputs.Fill(images, preprocessing, {&decoded, 1});
  Net().Run(inputs.tensors());
  return {
      decoded.height, decoded.width,
      PlaceImage(preprocessing, decoded.height, decoded.width, images.height(), images.width())};
}

std::vector<Prediction> Runner::Impl::Best(std::span<const float> scores, size_t most) const {
  const std::vector<std::string>& labels = model->card.labels;
  std::vector<Prediction> predictions;
  for (const auto& [index, score] : BestFirst(scores, most)) {
    const auto k = static_cast<size_t>(index);
    predictions.push_back({index, static_cast<float>(score), k < labels.size() ? labels[k] : ""});
  }
  return predictions;
}

std::vector<FoundBox> Runner::Impl::Boxes(const void* image, size_t bytes,
                                          std::optional<double> confidence) {
  if (cascade) {
    std::vector<FoundBox> boxes = cascade->Detect(Decoded(image, bytes, ColorMode::kColor));
    std::erase_if(boxes, [&](const FoundBox& f) { return !(f.score > confidence.value_or(0)); });
    return boxes;
  }
  if (!detector || (confidence && *confidence < detector->least_score())) {
    RefuseTenCrops(model->card.preprocessing);
    // Refuses too low a confidence. Boxes above 1 are none, but the model says what it finds.
    detector = std::make_unique<const Detector>(model->model, confidence.value_or(1));
  }
  const PlacedImage placed = RunImage(detector->image_model(), image, bytes);
  std::vector<std::span<const float>> values;
  for (const std::string& output : detector->outputs()) {
    values.push_back(runner->Output(output).span<float>());
  }
  return detector->BoxesOf(values, 0, placed.height, placed.width, placed.place,
                           confidence.value_or(detector->default_confidence()));
}

Runner::Runner(const Model& model)
    : impl_(Translated([&] { return std::make_unique<Impl>(model); })) {}
Runner::~Runner() = default;
Runner::Runner(Runner&& other) noexcept = default;
Runner& Runner::operator=(Runner&& other) noexcept = default;

void Runner::Run(const std::vector<Tensor>& inputs) {
  Translated([&] {
    std::vector<NamedTensor> named;
    for (const Tensor& input : inputs) named.push_back({input.name, ViewOf(input)});
    impl_->Net().Run(named);
  });
}

Tensor Runner::Output(const std::string& name) const {
  return Translated([&] {
    const ConstTensorView view = impl_->Net().Output(name);
    const auto dims = view.shape().dims();
    return Tensor{name,
                  view.dtype() == DType::kU8 ? Type::kUInt8 : Type::kFloat32,
                  {dims.begin(), dims.end()},
                  view.raw()};
  });
}

std::vector<Prediction> Runner::Classify(const void* image, size_t bytes, size_t most) {
  return Translated([&] {
    impl_->Net();
    if (!impl_->classifier) {
      impl_->classifier = std::make_unique<const Classifier>(impl_->model->model, "");
      impl_->classifying = std::make_unique<Classifier::Worker>(*impl_->classifier,
                                                                impl_->model->card.preprocessing);
    }
    const Image decoded = Decoded(image, bytes, impl_->classifier->image_model().color_mode());
    return impl_->Best(impl_->classifying->Scores({&decoded, 1}), most);
  });
}

std::vector<Detection> Runner::Detect(const void* image, size_t bytes,
                                      std::optional<double> confidence) {
  return Translated([&] {
    if (confidence && !(*confidence >= 0 && *confidence <= 1)) {
      throw Error(Code::kInvalidArgument,
                  "confidence is " + std::to_string(*confidence) + ", expected 0 to 1");
    }
    std::vector<Detection> detections;
    for (const FoundBox& found : impl_->Boxes(image, bytes, confidence)) {
      detections.push_back(DetectionOf(found, impl_->model->card.labels));
    }
    return detections;
  });
}

Segmentation Runner::Segment(const void* image, size_t bytes) {
  return Translated([&] {
    ModelRunner& net = impl_->Net();
    if (!impl_->segmenter) {
      RefuseCrop(impl_->model->card.preprocessing);
      impl_->segmenter = std::make_unique<const Segmenter>(impl_->model->model, "");
    }
    const Segmenter& segmenter = *impl_->segmenter;
    const Impl::PlacedImage placed = impl_->RunImage(segmenter.image_model(), image, bytes);
    Image classes =
        ResizeClasses(segmenter.ClassesOf(net.Output(segmenter.output()), 0, placed.place),
                      placed.height, placed.width);
    return Segmentation{classes.width, classes.height, std::move(classes.pixels)};
  });
}

}  // namespace crema::deploy
