// Trained models in Python.
#include "inference/model.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "inference/classifier.h"
#include "log.h"

namespace crema::python {
namespace {

// A model with runners that wait for the next call. Thread safety: any number of threads.
class PyModel {
 public:
  explicit PyModel(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  const Model& model() const { return *model_; }

  // Calls `use` with a runner that no other thread has.
  template <typename Use>
  void WithRunner(Use&& use) {
    std::unique_ptr<ModelRunner> runner = Take();
    if (runner == nullptr) runner = std::make_unique<ModelRunner>(model_);
    use(*runner);  // one that has thrown is not used again
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(runner));
  }

 private:
  std::unique_ptr<ModelRunner> Take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return nullptr;
    std::unique_ptr<ModelRunner> runner = std::move(waiting_.back());
    waiting_.pop_back();
    return runner;
  }

  std::shared_ptr<const Model> model_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelRunner>> waiting_;
};
using ModelPtr = std::shared_ptr<PyModel>;

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

ModelPtr OpenFile(const std::string& path, int threads) {
  const nb::gil_scoped_release released;
  return std::make_shared<PyModel>(Model::Open(path, OptionsOf(threads), Layers(), Log()));
}

ModelPtr FromCaffe(const std::string& net, const std::vector<std::string>& weights, int threads) {
  const nb::gil_scoped_release released;
  const NetFile file = ReadNet(net);
  ModelCard card;
  card.name = file.net.name();
  return std::make_shared<PyModel>(
      Model::Make(file, {.paths = weights}, card, OptionsOf(threads), Layers(), Log()));
}

using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

ConstTensorView ViewOf(const std::string& name, const InputArray& array) {
  DType type = DType::kF32;
  if (array.dtype() == nb::dtype<uint8_t>()) {
    type = DType::kU8;
  } else if (array.dtype() != nb::dtype<float>()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", name, "' must be an array of float32 or uint8"));
  }
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(static_cast<int64_t>(array.shape(i)));
  return {array.data(), Shape(std::span<const int64_t>(sizes)), type};
}

HeldView CopyOf(const ConstTensorView& view) {
  auto copy = std::make_shared<Tensor>(view.shape(), view.dtype());
  std::memcpy(copy->view().raw(), view.raw(), view.bytes());
  return {copy->view(), copy};
}

nb::dict Run(const ModelPtr& model, const nb::dict& inputs) {
  std::vector<std::pair<std::string, InputArray>> held;
  for (const auto& [name, array] : inputs) {
    held.emplace_back(nb::cast<std::string>(name), nb::cast<InputArray>(array));
  }
  std::vector<NamedTensor> named;
  for (const auto& [name, array] : held) named.push_back({name, ViewOf(name, array)});
  std::vector<std::pair<std::string, HeldView>> answers;
  {
    const nb::gil_scoped_release released;
    model->WithRunner([&](ModelRunner& runner) {
      runner.Run(named);
      for (const BlobInfo& output : model->model().outputs()) {
        answers.emplace_back(output.name, CopyOf(runner.Output(output.name)));
      }
    });
  }
  nb::dict outputs;
  for (const auto& [name, answer] : answers) outputs[name.c_str()] = ArrayOf(answer);
  return outputs;
}

nb::list InfosOf(const std::vector<BlobInfo>& blobs) {
  nb::list infos;
  for (const BlobInfo& blob : blobs) {
    nb::list sizes;
    for (const int64_t size : blob.shape) sizes.append(size);
    infos.append(nb::make_tuple(blob.name, blob.dtype == DType::kU8 ? "uint8" : "float32",
                                nb::tuple(sizes)));
  }
  return infos;
}

// Classifies the bytes of an image file.
nb::list Classify(const ModelPtr& model, const nb::bytes& image, size_t most) {
  const std::string_view bytes(image.c_str(), image.size());
  std::vector<Prediction> best;
  {
    const nb::gil_scoped_release released;
    const ModelCard& card = model->model().card();
    const std::vector<BlobInfo>& inputs = model->model().inputs();
    const std::vector<BlobInfo>& outputs = model->model().outputs();
    const bool fits = inputs.size() == 1 && outputs.size() == 1 && inputs[0].shape.size() == 4 &&
                      inputs[0].dtype == DType::kF32 &&
                      (inputs[0].shape[1] == 1 || inputs[0].shape[1] == 3);
    if (!fits) {
      Fail(ErrorCode::kInvalidArgument,
           "this model does not take one image and give one array of scores");
    }
    const std::vector<int64_t>& shape = inputs[0].shape;
    Tensor input({1, shape[1], shape[2], shape[3]}, DType::kF32);
    FillImageInput(bytes, "the image", card.preprocessing, input.view());
    const NamedTensor named{inputs[0].name, std::as_const(input).view()};
    model->WithRunner([&](ModelRunner& runner) {
      runner.Run({&named, 1});
      best = BestFirst(runner.Output(outputs[0].name).span<float>(), most);
    });
  }
  const std::vector<std::string>& labels = model->model().card().labels;
  nb::list predictions;
  for (const auto& [index, score] : best) {
    const auto k = static_cast<size_t>(index);
    predictions.append(nb::make_tuple(index, score, k < labels.size() ? labels[k] : ""));
  }
  return predictions;
}

}  // namespace

nb::object ObjectOf(std::shared_ptr<const Model> model) {
  return nb::cast(std::make_shared<PyModel>(std::move(model)));
}

void BindModel(nb::module_& module) {
  nb::class_<PyModel>(module, "Model", "A trained model. Any number of threads may run it.")
      .def_static("open", &OpenFile, nb::arg("path"), nb::arg("threads") = 0)
      .def_static("from_caffe", &FromCaffe, nb::arg("net"), nb::arg("weights"),
                  nb::arg("threads") = 0)
      .def_prop_ro("name", [](const ModelPtr& model) { return model->model().card().name; })
      .def_prop_ro("task", [](const ModelPtr& model) { return model->model().card().task; })
      .def_prop_ro("labels", [](const ModelPtr& model) { return model->model().card().labels; })
      .def_prop_ro(
          "inputs", [](const ModelPtr& model) { return InfosOf(model->model().inputs()); },
          nb::sig("def inputs(self) -> list[tuple[str, str, tuple[int, ...]]]"),
          "(name, element type, shape) of each input; -1 means any size.")
      .def_prop_ro(
          "outputs", [](const ModelPtr& model) { return InfosOf(model->model().outputs()); },
          nb::sig("def outputs(self) -> list[tuple[str, str, tuple[int, ...]]]"))
      .def("run", &Run, nb::arg("inputs"),
           nb::sig("def run(self, inputs: dict[str, object]) -> dict[str, "
                   "numpy.typing.NDArray[typing.Any]]"),
           "Runs a dict of arrays; returns new arrays.")
      .def("classify", &Classify, nb::arg("image"), nb::arg("most") = 5,
           nb::sig("def classify(self, image: bytes, most: int = 5) -> "
                   "list[tuple[int, float, str]]"),
           "Classifies the bytes of an image file: (index, score, label), best first.");
}

}  // namespace crema::python
