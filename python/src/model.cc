// Trained models in Python.
#include "model.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/machine_limits.h"
#include "core/strings.h"
#include "core/whole_number.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"
#include "log.h"
#include "look.h"
#include "onnx/import.h"
#include "state_dict.h"

namespace crema::python {
namespace {

namespace fs = std::filesystem;

// Returns one number for each channel or element, from None, a path, or numbers.
std::vector<float> NumbersOf(const nb::object& given, const Shape& sample) {
  if (const std::optional<std::string> path = PathOf(given)) return ReadMean(*path, sample);
  const nb::object numbers = nb::module_::import_("numpy").attr("asarray")(given, "float32");
  auto mean = nb::cast<std::vector<float>>(numbers.attr("ravel")().attr("tolist")());
  if (mean.size() == 1) mean.resize(static_cast<size_t>(sample[0]), mean[0]);
  return mean;
}

// Sets the size of images before a crop: the short side, or (height, width).
void SetResize(nb::handle given, Preprocessing* set) {
  set->short_side = set->resize_height = set->resize_width = 0;
  if (nb::isinstance<nb::bool_>(given)) throw nb::cast_error();
  if (nb::isinstance<nb::int_>(given)) {
    set->short_side = nb::cast<int>(given);
  } else {
    std::tie(set->resize_height, set->resize_width) = nb::cast<std::pair<int, int>>(given);
  }
}

// Sets one keyword of from_file, from_caffe and from_onnx about images. Throws TypeError for an
// unknown one.
void SetImageKeyword(const std::string& name, nb::handle value, const Shape& sample,
                     PyModel* model) {
  Preprocessing& set = model->preprocessing;
  if (name == "labels") {
    model->labels = nb::cast<std::vector<std::string>>(value);
  } else if (name == "mean") {
    set.mean = NumbersOf(nb::borrow(value), sample);
  } else if (name == "std") {
    set.deviation = NumbersOf(nb::borrow(value), sample);
  } else if (name == "scale") {
    set.scale = nb::cast<float>(value);
  } else if (name == "pixel_range") {
    set.range = nb::cast<float>(value);
  } else if (name == "rgb") {
    set.rgb = nb::cast<bool>(value);
  } else if (name == "invert") {
    set.invert = nb::cast<bool>(value);
  } else if (name == "fit") {
    set.fit = ParseFit(nb::cast<std::string>(value));
  } else if (name == "resize") {
    SetResize(value, &set);
  } else if (name == "interpolation") {
    set.interpolation = ParseInterpolation(nb::cast<std::string>(value));
  } else if (name == "pad") {
    set.pad = nb::cast<int>(value);
  } else if (name == "ten_crops") {
    set.ten_crops = nb::cast<bool>(value);
  } else {
    throw nb::type_error(StrCat("unexpected keyword argument '", name, "'").c_str());
  }
}

// Overrides what the file says.
void SetImages(const nb::kwargs& given, PyModel* model) {
  std::optional<ImageModel> images;
  const ImageFit fit_of_file = model->preprocessing.fit;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    if (name != "labels" && !images) images.emplace(model->model, "images");
    try {
      SetImageKeyword(name, value, images ? images->sample() : Shape(), model);
    } catch (const nb::cast_error&) {
      throw nb::type_error(
          StrCat("keyword argument '", name, "' has a value of another type").c_str());
    }
  }
  Preprocessing& set = model->preprocessing;
  const bool has_fit = given.contains("fit") && !given["fit"].is_none();
  const bool has_resize = given.contains("resize") && !given["resize"].is_none();
  if (has_resize && !has_fit && set.fit != ImageFit::kReshape) set.fit = ImageFit::kCrop;
  if (!has_resize && set.fit != fit_of_file) {  // the size is that of the file
    set.short_side = set.resize_height = set.resize_width = 0;
  }
  if (!std::isfinite(set.scale)) throw nb::value_error("scale is not a finite number");
  if (!std::ranges::all_of(set.mean, [](float value) { return std::isfinite(value); })) {
    throw nb::value_error("mean has values that are not finite numbers");
  }
  if (images) CheckPreprocessing(set, *images);
}

// Calls `make` without the GIL, which returns a model.
template <typename Make>
ModelPtr Made(const nb::kwargs& images, Make&& make) {
  auto made = std::make_shared<PyModel>();
  {
    const GilReleased released;
    const Apart apart;  // a layer may open a model while its net is planned
    made->model = make();
  }
  made->preprocessing = made->model->card().preprocessing;
  made->labels = made->model->card().labels;
  SetImages(images, made.get());
  return made;
}

ModelPtr FromFile(const fs::path& path, int threads, const nb::kwargs& images) {
  if (path.extension() == ".onnx") {
    Fail(ErrorCode::kInvalidArgument,
         "is an ONNX model, not a file of deploy export: open it with Model.from_onnx",
         {.file = path.string()});
  }
  return Made(images,
              [&] { return Model::Open(path.string(), OptionsOf(threads), Layers(), Log()); });
}

void CheckShare(const char* name, const std::optional<double>& value) {
  if (!value || (*value >= 0 && *value <= 1)) return;
  Fail(ErrorCode::kInvalidArgument, StrCat(name, " is ", *value, ", expected 0 to 1"));
}

ModelPtr FromCaffe(const fs::path& net, const Paths& weights, int threads,
                   std::optional<double> confidence, std::optional<double> nms,
                   const std::optional<fs::path>& tail, const std::string& head,
                   const nb::kwargs& images) {
  WeightsFiles files;
  files.paths = NamesOf(weights);
  CheckShare("confidence", confidence);
  CheckShare("nms", nms);
  return Made(images, [&] {
    NetFile file = ReadNet(net.string());
    if (tail) file = WithTail(std::move(file), ReadNet(tail->string()));
    const bool raw = !confidence && !HasDecoder(file.net);
    if (!raw && (confidence || nms)) {
      ConfigureDecoder({.confidence = confidence, .nms = nms}, &file);
    }
    ModelCard card;
    card.name = file.net.name();
    card.head = head;
    if (raw) card.head_overlap = nms;
    PrepareRegionNet(&file, &card);
    return Model::Make(file, files, card, OptionsOf(threads), Layers(), Log());
  });
}

ModelPtr FromOnnx(const fs::path& path, const std::map<std::string, std::vector<int64_t>>& shapes,
                  int threads, std::optional<double> nms, const std::string& head,
                  const nb::kwargs& images) {
  CheckShare("nms", nms);
  ImportOptions options;
  for (const auto& [name, dims] : shapes) {
    try {
      options.shapes[name] = Shape(std::span<const int64_t>(dims));
    } catch (const Error& error) {
      const Problem& problem = error.problems().front();
      Fail(problem.code, StrCat("shapes: '", name, "': ", problem.message),
           {.file = path.string()});
    }
  }
  std::map<std::string, std::string> types;
  ModelPtr made = Made(images, [&] {
    NetFile file;
    ImportedNet imported = ImportOnnx(path.string(), options);
    file.net = std::move(imported.net);
    types = std::move(imported.types);
    ModelCard card = std::move(imported.card);
    card.name = file.net.name();
    if (!head.empty()) card.head = head;
    if (nms) card.head_overlap = nms;
    return Model::Make(file, {}, card, OptionsOf(threads), Layers(), Log());
  });
  made->types = std::move(types);
  return made;
}

using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

ConstTensorView ViewOf(const InputArray& array) {
  const DType type = array.dtype() == nb::dtype<float>() ? DType::kF32 : DType::kU8;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(static_cast<int64_t>(array.shape(i)));
  return {array.data(), Shape(std::span<const int64_t>(sizes)), type};
}

// Returns whole numbers or truth values as floats; nothing: they are of another type than T. Throws
// kInvalidArgument for a number that no float is.
template <typename T>
std::optional<InputArray> FloatsOf(const std::string& name, const InputArray& from) {
  if (from.dtype() != nb::dtype<T>()) return std::nullopt;
  const ConstTensorView view = ViewOf(from);
  auto values = std::make_shared<Tensor>(view.shape(), DType::kF32);
  const auto* given = static_cast<const T*>(from.data());
  float* floats = values->view().data<float>();
  for (size_t i = 0; i < from.size(); ++i) {
    if (!IsExactFloat(given[i])) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("input '", name, "' is ", given[i], " at element ", i,
                  "; inputs become float32, which holds whole numbers up to 2^24, and few beyond"));
    }
    floats[i] = static_cast<float>(given[i]);
  }
  return nb::cast<InputArray>(ArrayOf({values->view(), values}));
}

template <typename... Ts>
std::optional<InputArray> FloatsOfAny(const std::string& name, const InputArray& from) {
  std::optional<InputArray> floats;
  static_cast<void>(((floats = FloatsOf<Ts>(name, from)).has_value() || ...));
  return floats;
}

// Throws kInvalidArgument for a float that a type of ONNX, of whole numbers or truth values, lacks.
void RequireWhole(const std::string& name, const std::string& type, const InputArray& array) {
  const auto* values = static_cast<const float*>(array.data());
  const bool truth = type == "bool";
  for (size_t i = 0; i < array.size(); ++i) {
    const float v = values[i];
    if (v == std::trunc(v) && (!truth || v == 0 || v == 1)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("input '", name, "' of ", type, " is ", v, " at element ", i));
  }
}

// Returns the type of NumPy for a type of ONNX.
std::string_view NumpyType(std::string_view type) {
  if (type == "int2" || type == "int4") return "int8";
  if (type == "uint2" || type == "uint4") return "uint8";
  return type;
}

// Throws TypeError unless it is an array of float32 or uint8, or, if the file of the model has no
// floats there, of whole numbers or truth values.
InputArray ArrayFor(const PyModel& model, const std::string& name, nb::handle given) {
  InputArray array;
  const char* remedy = "";
  if (nb::try_cast(given, array)) {
    const nb::dlpack::dtype type = array.dtype();
    const auto kind = model.types.find(name);
    if (kind != model.types.end() && type == nb::dtype<float>()) {
      RequireWhole(name, kind->second, array);
    } else if (kind != model.types.end()) {
      const auto floats = FloatsOfAny<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                      uint32_t, uint64_t>(name, array);
      if (floats) return *floats;
    }
    if (type == nb::dtype<float>() || type == nb::dtype<uint8_t>()) return array;
    remedy = "; use .astype(numpy.float32), or .float() of PyTorch";
  }
  const char* others = model.types.contains(name) ? ", or of whole numbers or truth values" : "";
  throw nb::type_error(
      StrCat("input '", name, "' must be an array of float32 or uint8", others, remedy).c_str());
}

HeldView CopyOf(const ConstTensorView& view) {
  auto copy = std::make_shared<Tensor>(view.shape(), view.dtype());
  std::memcpy(copy->view().raw(), view.raw(), view.bytes());
  return {copy->view(), copy};
}

std::vector<std::pair<std::string, InputArray>> InputsOf(const PyModel& of, nb::handle given) {
  const Model& model = *of.model;
  std::vector<std::pair<std::string, InputArray>> inputs;
  if (nb::isinstance<nb::dict>(given)) {
    // A copy, which no code that converts an array can change.
    for (const auto& [name, array] : nb::steal<nb::dict>(PyDict_Copy(given.ptr()))) {
      if (!nb::isinstance<nb::str>(name)) throw nb::type_error("the keys are names of inputs");
      auto& [input, value] = inputs.emplace_back(nb::cast<std::string>(name), InputArray());
      value = ArrayFor(of, input, array);
    }
    return inputs;
  }
  if (model.inputs().size() != 1) {
    throw nb::type_error(StrCat("the model has ", model.inputs().size(),
                                " inputs: give a dict with an array for each")
                             .c_str());
  }
  const std::string& name = model.inputs()[0].name;
  inputs.emplace_back(name, ArrayFor(of, name, given));
  return inputs;
}

// Returns an output as an array of the type that its ONNX model gives it. Throws kUnsupported for
// a whole number that floats may have rounded, or that the type does not hold.
nb::object Typed(const PyModel& model, const std::string& name, const HeldView& answer) {
  struct Range {
    std::string_view type;
    float least, most;
  };
  static constexpr Range kRanges[] = {{"int8", -128, 127},          {"uint8", 0, 255},
                                      {"int16", -32768, 32767},     {"uint16", 0, 65535},
                                      {"uint32", 0, 0x1p24F},       {"int32", -0x1p24F, 0x1p24F},
                                      {"int64", -0x1p24F, 0x1p24F}, {"uint64", 0, 0x1p24F}};
  nb::object array = ArrayOf(answer);
  const auto type = model.types.find(name);
  if (type == model.types.end()) return array;
  const std::string_view numpy = NumpyType(type->second);
  const auto* const range = std::ranges::find(kRanges, numpy, &Range::type);
  const auto* values = answer.view.data<float>();
  for (int64_t i = 0; range != std::end(kRanges) && i < answer.view.count(); ++i) {
    if (values[i] >= range->least && values[i] <= range->most) continue;
    Fail(ErrorCode::kUnsupported,
         StrCat("output '", name, "' of ", type->second, " is ", values[i], " at element ", i,
                "; whole numbers are computed as float32, where those up to 2^24 are exact"));
  }
  return array.attr("astype")(std::string(numpy));
}

nb::dict Run(const ModelPtr& model, const nb::object& inputs) {
  const auto held = InputsOf(*model, inputs);
  std::vector<std::pair<std::string, HeldView>> answers;
  {
    const GilReleased released;
    const Apart apart;  // a callback may call this
    std::vector<NamedTensor> named;
    for (const auto& [name, array] : held) named.push_back({name, ViewOf(array)});
    model->runners.With([&] { return std::make_unique<ModelRunner>(model->model); },
                        [&](ModelRunner& runner) {
                          runner.Run(named);
                          for (const BlobInfo& output : model->model->outputs()) {
                            answers.emplace_back(output.name, CopyOf(runner.Output(output.name)));
                          }
                        });
  }
  nb::dict outputs;
  for (const auto& [name, answer] : answers) outputs[name.c_str()] = Typed(*model, name, answer);
  return outputs;
}

nb::list InfosOf(const PyModel& model, const std::vector<BlobInfo>& blobs) {
  nb::list infos;
  for (const BlobInfo& blob : blobs) {
    nb::list sizes;
    for (const int64_t size : blob.shape) sizes.append(size);
    const auto type = model.types.find(blob.name);
    infos.append(nb::make_tuple(blob.name,
                                type != model.types.end()  ? std::string(NumpyType(type->second))
                                : blob.dtype == DType::kU8 ? "uint8"
                                                           : "float32",
                                nb::tuple(sizes)));
  }
  return infos;
}

std::string ReprOf(const ModelPtr& model) {
  const auto describe = [](const std::vector<BlobInfo>& blobs) {
    std::vector<std::string> texts;
    for (const BlobInfo& blob : blobs) {
      std::vector<std::string> sizes;
      for (const int64_t size : blob.shape) sizes.push_back(size < 0 ? "N" : std::to_string(size));
      texts.push_back(StrCat(blob.name, " ", Join(sizes, "x")));
    }
    return Join(texts, ", ");
  };
  return StrCat("<crema.Model '", model->model->card().name,
                "': ", describe(model->model->inputs()), " -> ", describe(model->model->outputs()),
                ">");
}

#define CREMA_IMAGE_KEYWORDS                                                                \
  "mean: str | os.PathLike[str] | numpy.typing.ArrayLike | None = None, "                   \
  "scale: float | None = None, std: numpy.typing.ArrayLike | None = None, "                 \
  "pixel_range: float | None = None, rgb: bool | None = None, invert: bool | None = None, " \
  "fit: str | None = None, resize: int | tuple[int, int] | None = None, "                   \
  "interpolation: str | None = None, pad: int | None = None, "                              \
  "ten_crops: bool | None = None, "                                                         \
  "labels: collections.abc.Sequence[str] | None = None"

constexpr const char* kFromFile =
    "Opens a file that `crema deploy export` wrote.\n\n"
    "`threads` compute (0: all processors). For classify, detect and segment a pixel v becomes\n"
    "((invert ? 255 - v : v) * pixel_range / 255 - mean) * scale / std; `mean` is a number, one "
    "for "
    "each\n"
    "channel or each element of the input, or a .binaryproto; `std` is a number, or one for each\n"
    "channel; channels are BGR, with `rgb` RGB. `fit` is \"stretch\", \"crop\", \"letterbox\",\n"
    "or \"reshape\" for Faster R-CNN; `resize` is the short side before a crop, or (height, "
    "width),\n"
    "with \"reshape\" (short side, largest long side); `interpolation` is \"linear\",\n"
    "\"area\", \"nearest\", \"cubic\", \"lanczos\" (OpenCV's) or \"antialias\", "
    "\"antialias_cubic\"\n"
    "(Pillow's); `pad` is the pixel value of a letterbox's bars. With `ten_crops`, classify takes\n"
    "the mean of the scores of the corners, the middle and their mirror images. `labels` are the\n"
    "names of the classes. What is not given is as in the file. Raises crema.Error.";
constexpr const char* kFromCaffe =
    "Opens a deploy net (.prototxt) with its weights, one file or several.\n\n"
    "Keywords as for from_file. For detection, `confidence` and `nms` replace the thresholds of\n"
    "the net, and `tail` is a .prototxt with layers to append. `head` names how raw outputs "
    "become\n"
    "boxes if their shapes do not show it, as --head of `crema deploy detect`. Raises crema.Error.";

constexpr const char* kFromOnnx =
    "Opens an ONNX model.\n\n"
    "`shapes` gives the sizes of inputs that the file leaves open: {\"data\": (1, 3, 224, 224)}.\n"
    "If layers depend on a size, `run` refuses arrays of another one. `nms` and `head` are as for\n"
    "from_caffe, for detectors that end in raw outputs.\n"
    "Other keywords as for from_file. Raises crema.Error, which lists all nodes that cannot be\n"
    "imported.";

}  // namespace

ModelOptions OptionsOf(int threads) {
  constexpr int kMostThreads = 1024;
  if (threads < 0 || threads > kMostThreads) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("threads is ", threads, ", expected 0 (all processors) to ", kMostThreads));
  }
  ModelOptions options;
  options.threads = threads > 0 ? threads : AvailableProcessors();
  return options;
}

nb::object ObjectOf(std::shared_ptr<const Model> model) {
  auto made = std::make_shared<PyModel>();
  made->model = std::move(model);
  return nb::cast(made);
}

void BindModel(nb::module_& module) {
  nb::class_<PyModel> model(module, "Model",
                            "A trained model. Any number of threads may use it at once.");
  model
      .def_static("from_file", &FromFile, nb::arg("path"), nb::kw_only(), nb::arg("threads") = 0,
                  nb::arg("images"),
                  nb::sig("def from_file(path: str | os.PathLike[str], *, threads: int = "
                          "0, " CREMA_IMAGE_KEYWORDS ") -> Model"),
                  kFromFile)
      .def_static("from_caffe", &FromCaffe, nb::arg("net"), nb::arg("weights"), nb::kw_only(),
                  nb::arg("threads") = 0, nb::arg("confidence") = nb::none(),
                  nb::arg("nms") = nb::none(), nb::arg("tail") = nb::none(), nb::arg("head") = "",
                  nb::arg("images"),
                  nb::sig("def from_caffe(net: str | os.PathLike[str], weights: str | "
                          "os.PathLike[str] | collections.abc.Sequence[str | os.PathLike[str]], "
                          "*, threads: int = 0, " CREMA_IMAGE_KEYWORDS
                          ", confidence: float | None = None, nms: float | None = None, "
                          "tail: str | os.PathLike[str] | None = None, head: str = '') -> Model"),
                  kFromCaffe)
      .def_static("from_onnx", &FromOnnx, nb::arg("path"),
                  nb::arg("shapes") = std::map<std::string, std::vector<int64_t>>(), nb::kw_only(),
                  nb::arg("threads") = 0, nb::arg("nms") = nb::none(), nb::arg("head") = "",
                  nb::arg("images"),
                  nb::sig("def from_onnx(path: str | os.PathLike[str], shapes: "
                          "collections.abc.Mapping[str, collections.abc.Sequence[int]] = {}, *, "
                          "threads: int = 0, " CREMA_IMAGE_KEYWORDS
                          ", nms: float | None = None, head: str = '') -> Model"),
                  kFromOnnx)
      .def_prop_ro("name", [](const ModelPtr& self) { return self->model->card().name; })
      .def_prop_ro(
          "task", [](const ModelPtr& self) { return self->model->card().task; },
          "\"classify\", \"detect\", \"segment\", or empty if its file names none.")
      .def_prop_ro(
          "labels", [](const ModelPtr& self) { return self->labels; },
          "The names of the classes; may be empty.")
      .def_prop_ro(
          "inputs", [](const ModelPtr& self) { return InfosOf(*self, self->model->inputs()); },
          nb::sig("def inputs(self) -> list[tuple[str, str, tuple[int, ...]]]"),
          "(name, element type, shape) of each input; -1 means any size.")
      .def_prop_ro(
          "outputs", [](const ModelPtr& self) { return InfosOf(*self, self->model->outputs()); },
          nb::sig("def outputs(self) -> list[tuple[str, str, tuple[int, ...]]]"))
      .def("run", &Run, nb::arg("inputs"),
           nb::sig("def run(self, inputs: object) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
           "Runs a dict with an array for each input, or an array if there is one input.\n\n"
           "Arrays are float32 or uint8, as `inputs` says, in C order or copied into it. If "
           "`inputs`\n"
           "says int64, bool or the like, arrays of any whole numbers and of truth values become\n"
           "float32. Returns a dict of new arrays. Raises TypeError for any other value,\n"
           "crema.Error for a shape that the net does not accept, and for a whole number that\n"
           "float32 does not hold, or that an output may have rounded.")
      .def(
          "to_text", [](const ModelPtr& self) { return PrintText(self->model->parts().net.net); },
          "Returns the net as prototxt.")
      .def(
          "to_torch_state_dict",
          [](const ModelPtr& self) {
            return TorchEntriesOf(*self->model->parts().plan, *self->model->weights());
          },
          nb::sig("def to_torch_state_dict(self) -> dict[str, typing.Any]"),
          "Returns the parameters as crema.Net.to_torch_state_dict does.")
      .def("__repr__", &ReprOf)
      .def("_repr_html_", [](const ModelPtr& self) {
        const Model& of = *self->model;
        return nb::module_::import_("crema._look")
            .attr("layers_html")(of.card().name, ReprOf(self), LayersJson(*of.parts().plan));
      });
  BindImageTasks(model);
}

}  // namespace crema::python
