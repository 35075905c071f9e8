// Classification, detection and segmentation of images in Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "data/image/image.h"
#include "data/image/pixel_kernels.h"
#include "format/file.h"
#include "inference/cascade.h"
#include "log.h"
#include "model.h"
#include "onnx/import.h"

namespace crema::python {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;

// An image that a program gives: pixels, or a file or its bytes. Made and destroyed with the GIL.
class GivenImage {
 public:
  explicit GivenImage(const nb::object& given) {
    if (nb::isinstance<nb::bytes>(given)) {
      bytes_ = nb::borrow<nb::bytes>(given);
      return;
    }
    path_ = PathOf(given);
    if (path_) return;
    const nb::object array = nb::module_::import_("numpy").attr("ascontiguousarray")(given);
    Bytes pixels;
    if (!nb::try_cast(array, pixels, /*convert=*/false)) {
      throw nb::type_error("an image is a path, the bytes of a file, or an array of uint8");
    }
    if (pixels.size() == 0 || pixels.ndim() > 3 || (pixels.ndim() == 3 && pixels.shape(2) != 3)) {
      throw nb::value_error(
          "the array of an image is height x width x 3 (RGB), or height x width (gray)");
    }
    pixels_ = std::move(pixels);
  }

  // Does not need the GIL. Throws what DecodeImage and ReadFile throw.
  Image Decode(ColorMode mode) const {
    Image image;
    if (path_) {
      DecodeImage(ReadFile(*path_), mode, *path_, &image);
    } else if (bytes_) {
      DecodeImage({bytes_->c_str(), bytes_->size()}, mode, "the image", &image);
    } else if (pixels_->ndim() == 1) {  // numpy.frombuffer of a file
      const auto* data = reinterpret_cast<const char*>(pixels_->data());
      DecodeImage({data, pixels_->size()}, mode, "the image", &image);
    } else {
      image = ImageOf(*pixels_, mode);
    }
    return image;
  }

 private:
  static Image ImageOf(const Bytes& pixels, ColorMode mode) {
    const size_t plane = pixels.shape(0) * pixels.shape(1);
    const bool colored = pixels.ndim() == 3;
    Image image{.channels = mode == ColorMode::kGray ? 1 : 3,
                .height = static_cast<int>(pixels.shape(0)),
                .width = static_cast<int>(pixels.shape(1)),
                .pixels = {}};
    image.pixels.reserve(plane * static_cast<size_t>(image.channels));
    const uint8_t* const from = pixels.data();
    for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
      for (size_t i = 0; i < plane; ++i) {
        const uint8_t* const rgb = from + 3 * i;
        image.pixels.push_back(!colored             ? from[i]
                               : image.channels > 1 ? rgb[2 - c]
                                                    : GrayOf(rgb[2], rgb[1], rgb[0]));
      }
    }
    return image;
  }

  std::optional<std::string> path_;
  std::optional<nb::bytes> bytes_;
  std::optional<Bytes> pixels_;
};

std::string LabelOf(const std::vector<std::string>& labels, int index) {
  const auto i = static_cast<size_t>(index);
  return i < labels.size() ? labels[i] : std::to_string(index);
}

// Calls `use` with a worker and the image, without the GIL.
template <typename Ready, typename Use>
void WithWorker(const PyModel& model, Ready& ready, const GivenImage& given, Use&& use) {
  const ImageModel& images = ready.task.image_model();
  CheckPreprocessing(model.preprocessing, images);
  const auto classes = static_cast<size_t>(ready.task.classes());
  if (!model.labels.empty() && classes != 0 && model.labels.size() != classes) {
    Fail(ErrorCode::kInvalidArgument, StrCat("the model has ", model.labels.size(),
                                             " labels, but its net has ", classes, " classes"));
  }
  const Image image = given.Decode(images.color_mode());
  using Worker = std::remove_cvref_t<decltype(ready.task)>::Worker;
  ready.workers.With([&] { return std::make_unique<Worker>(ready.task, model.preprocessing); },
                     [&](Worker& worker) { use(worker, image); });
}

nb::object Result(const char* type) { return nb::module_::import_("crema._results").attr(type); }

nb::object Preprocess(const ModelPtr& model, const nb::object& image) {
  const GivenImage given(image);
  std::shared_ptr<Tensor> input;
  {
    const GilReleased released;
    const ImageModel images(model->model, "images");
    CheckPreprocessing(model->preprocessing, images);
    const Image decoded = given.Decode(images.color_mode());
    const ImagePlacement place = PlaceImage(model->preprocessing, decoded.height, decoded.width,
                                            images.height(), images.width());
    const int height = place.input_height, width = place.input_width;
    const int64_t crops = CropsOf(model->preprocessing);
    input = std::make_shared<Tensor>(Shape{crops, images.sample()[0], height, width}, DType::kF32);
    FillCrops(decoded, model->preprocessing, height, width, input->view().span<float>());
  }
  return ArrayOf({input->view(), input});
}

nb::list Classify(const ModelPtr& model, const nb::object& image, size_t most,
                  const std::string& output) {
  const GivenImage given(image);
  std::vector<Prediction> best;
  {
    const GilReleased released;
    const Apart apart;  // a callback may call this
    const auto ready = model->classifier.For(model->model, output);
    WithWorker(*model, *ready, given, [&](Classifier::Worker& worker, const Image& decoded) {
      best = BestFirst(worker.Scores({&decoded, 1}), most);
    });
  }
  const nb::object make = Result("Prediction");
  nb::list predictions;
  for (const auto& [index, score] : best) {
    predictions.append(make(index, score, LabelOf(model->labels, index)));
  }
  return predictions;
}

nb::list DetectionsOf(const std::vector<FoundBox>& boxes, const std::vector<std::string>& labels) {
  const nb::object make = Result("Detection");
  nb::list detections;
  for (const auto& [index, score, box, points] : boxes) {
    nb::list keypoints;
    for (const auto& [x, y] : points) keypoints.append(nb::make_tuple(x, y));
    detections.append(make(index, score, LabelOf(labels, index),
                           nb::make_tuple(box.xmin, box.ymin, box.xmax, box.ymax),
                           nb::tuple(keypoints)));
  }
  return detections;
}

void CheckConfidence(double confidence) {
  if (confidence >= 0 && confidence <= 1) return;
  Fail(ErrorCode::kInvalidArgument, StrCat("confidence is ", confidence, ", expected 0 to 1"));
}

nb::list Detect(const ModelPtr& model, const nb::object& image, double confidence) {
  const GivenImage given(image);
  std::vector<FoundBox> boxes;
  {
    const GilReleased released;
    const Apart apart;  // a callback may call this
    CheckConfidence(confidence);
    const auto ready = model->detector.For(model->model, confidence);
    WithWorker(*model, *ready, given, [&](Detector::Worker& worker, const Image& decoded) {
      boxes = worker.Detect({&decoded, 1})[0];
    });
  }
  return DetectionsOf(boxes, model->labels);
}

// Thread safety: any number of threads.
struct PyCascade {
  PyCascade(const std::string& path, const ModelOptions& options, std::vector<std::string> names)
      : cascade(path, Layers(), {.model = options, .open_onnx = OpenOnnxNet}, Log()),
        labels(std::move(names)) {}
  Cascade cascade;
  std::vector<std::string> labels;
  Pool<CascadeRunner> runners;
};

std::shared_ptr<PyCascade> OpenCascade(const std::filesystem::path& path, int threads,
                                       std::vector<std::string> labels) {
  const GilReleased released;
  const Apart apart;  // a layer may open a cascade while its net is planned
  return std::make_shared<PyCascade>(path.string(), OptionsOf(threads), std::move(labels));
}

nb::list DetectByCascade(const std::shared_ptr<PyCascade>& self, const nb::object& image,
                         std::optional<double> confidence) {
  const GivenImage given(image);
  std::vector<FoundBox> boxes;
  {
    const GilReleased released;
    const Apart apart;  // a callback may call this
    if (confidence) CheckConfidence(*confidence);
    const Image decoded = given.Decode(ColorMode::kColor);
    self->runners.With([&] { return std::make_unique<CascadeRunner>(self->cascade); },
                       [&](CascadeRunner& runner) { boxes = runner.Detect(decoded); });
    if (confidence) {
      std::erase_if(boxes, [&](const FoundBox& f) { return !(f.score > *confidence); });
    }
  }
  return DetectionsOf(boxes, self->labels);
}

nb::object Segment(const ModelPtr& model, const nb::object& image, const std::string& output) {
  const GivenImage given(image);
  auto mask = std::make_shared<Image>();
  std::vector<ClassShare> shares;
  {
    const GilReleased released;
    const Apart apart;  // a callback may call this
    const auto ready = model->segmenter.For(model->model, output);
    WithWorker(*model, *ready, given, [&](Segmenter::Worker& worker, const Image& decoded) {
      const Image classes = worker.Segment({&decoded, 1})[0];
      shares = SharesOf(classes, ready->task.classes());
      *mask = ResizeClasses(classes, decoded.height, decoded.width);
    });
  }
  const nb::object share = Result("ClassShare");
  nb::list classes;
  for (const auto& [index, of_pixels] : shares) {
    classes.append(share(index, of_pixels, LabelOf(model->labels, index)));
  }
  const TensorView view(mask->pixels.data(), {mask->height, mask->width}, DType::kU8);
  return Result("Segmentation")(ArrayOf({view, mask}), classes);
}

}  // namespace

void BindCascade(nb::module_& module) {
  nb::class_<PyCascade>(
      module, "Cascade",
      "Nets that look closer and closer, such as MTCNN. Any number of threads may use it at once.")
      .def_static("from_file", &OpenCascade, nb::arg("path"), nb::kw_only(), nb::arg("threads") = 0,
                  nb::arg("labels") = std::vector<std::string>(),
                  nb::sig("def from_file(path: str | os.PathLike[str], *, threads: int = 0, "
                          "labels: collections.abc.Sequence[str] = ()) -> Cascade"),
                  "Opens the file that names the nets, as --cascade of `crema deploy detect`.\n\n"
                  "All objects have the label 1. Raises crema.Error.")
      .def("detect", &DetectByCascade, nb::arg("image"), nb::arg("confidence") = nb::none(),
           nb::sig("def detect(self, image: object, confidence: float | None = None) -> "
                   "list[crema._results.Detection]"),
           "Returns the objects in an image (as for Model.classify), best first. `confidence` can\n"
           "only raise the threshold of the last net.")
      .def_prop_ro(
          "labels", [](const std::shared_ptr<PyCascade>& self) { return self->labels; },
          "The names of the classes; may be empty.");
}

void BindImageTasks(nb::class_<PyModel>& model) {
  model
      .def("preprocess", &Preprocess, nb::arg("image"),
           nb::sig("def preprocess(self, image: object) -> "
                   "numpy.typing.NDArray[numpy.float32]"),
           "Returns the input that classify, detect and segment compute from an image (as for\n"
           "classify): an array of 1 x channels x height x width; 10 samples with ten_crops.")
      .def("classify", &Classify, nb::arg("image"), nb::arg("most") = 5, nb::arg("output") = "",
           nb::sig("def classify(self, image: object, most: int = 5, output: str = '') -> "
                   "list[crema._results.Prediction]"),
           "Returns the `most` best classes of an image, best first.\n\n"
           "`image` is a path, the bytes of an image file, or an array of uint8, height x width x\n"
           "3 (RGB) or height x width (gray). `output` names the scores if there are several.")
      .def(
          "detect", &Detect, nb::arg("image"), nb::arg("confidence") = 0.6,
          nb::sig("def detect(self, image: object, confidence: float = 0.6) -> "
                  "list[crema._results.Detection]"),
          "Returns the objects in an image (as for classify) with scores above `confidence`, best\n"
          "first. Needs a model that ends in a layer that makes detections, or in a head whose\n"
          "raw outputs `crema deploy detect` knows.")
      .def("segment", &Segment, nb::arg("image"), nb::arg("output") = "",
           nb::sig("def segment(self, image: object, output: str = '') -> "
                   "crema._results.Segmentation"),
           "Returns the class of each pixel of an image (as for classify).");
}

}  // namespace crema::python
