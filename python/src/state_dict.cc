// Parameters under PyTorch's names, and files of them.
#include "format/state_dict.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>

#include <filesystem>
#include <utility>

#include "arrays.h"
#include "format/safetensors.h"
#include "net.h"
#include "state_dict.h"

namespace crema::python {
namespace {

nb::object Array(Tensor tensor) {
  auto held = std::make_shared<Tensor>(std::move(tensor));
  return ArrayOf({held->view(), held});
}

nb::dict Load(const std::filesystem::path& path, const std::string& key) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  {
    const GilReleased released;
    const std::unique_ptr<StateDict> file = OpenStateDict(path.string(), key);
    for (size_t i = 0; i < file->entries().size(); ++i) {
      tensors.emplace_back(file->entries()[i].name, file->Read(i));
    }
  }
  nb::dict dict;
  for (auto& [name, tensor] : tensors) dict[name.c_str()] = Array(std::move(tensor));
  return dict;
}

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

void Save(const std::vector<std::pair<std::string, FloatArray>>& tensors,
          const std::filesystem::path& path) {
  std::vector<NamedArrayView> views;
  for (const auto& [name, array] : tensors) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<int64_t>(array.shape(i)));
    views.push_back({name, {array.data(), Shape(dims), DType::kF32}});
  }
  const GilReleased released;
  WriteSafetensors(path.string(), views);
}

}  // namespace

nb::object TorchEntriesOf(const Plan& plan, const Weights& weights) {
  nb::dict dict;
  for (TorchEntry& entry : ToTorchEntries(plan, weights)) {
    dict[entry.name.c_str()] = Array(std::move(entry.value));
  }
  return nb::module_::import_("crema._torch").attr("as_tensors")(dict);
}

void BindStateDict(nb::module_& module) {
  module.def(
      "load_state_dict", &Load, nb::arg("path"), nb::arg("key") = "",
      nb::sig("def load_state_dict(path: str | os.PathLike[str], key: str = \"\") -> "
              "dict[str, numpy.typing.NDArray[numpy.float32]]"),
      "Reads the tensors of a .safetensors, .pth or .pt file, as float32.\n\n"
      "Nothing in the file is executed. `key` chooses one of several dicts of a checkpoint,\n"
      "such as \"model\"; \".\" takes all of them. Raises crema.Error.");
  module.def("write_safetensors", &Save, nb::arg("tensors"), nb::arg("path"),
             nb::sig("def write_safetensors(tensors: collections.abc.Sequence[tuple[str, "
                     "numpy.typing.NDArray[numpy.float32]]], path: str | os.PathLike[str]) -> "
                     "None"));
}

}  // namespace crema::python
