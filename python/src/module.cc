// The extension module crema._core.
#include "arrays.h"
#include "layers/python/python_layers.h"
#include "log.h"
#include "python_layer.h"

NB_MODULE(_core, module) {
  using namespace crema::python;  // NOLINT(google-build-using-namespace)
  module.doc() = "The C++ half of the package crema.";
  module.attr("__version__") = CREMA_VERSION;
  nb::set_leak_warnings(false);  // a program may end while it holds nets
  HandleForks();
  AllLayers();  // now: a process forked while another thread does that would wait for it
  BindErrors(module);
  BindBlobs(module);
  BindNet(module);
  BindSolver(module);
  BindModel(module);
  BindCascade(module);
  BindSchema(module);
  BindStateDict(module);
  BindLook(module);
  BindCheckLayer(module);
  crema::SetPythonLayerMaker(&MakeUserLayer);
  module.def("library_path", &crema::LibraryPath, "The file with the library of this module.");
  BindDnn(module);
  module.def(
      "layer_types", [] { return Layers().Names(); }, "The names of all layer types.");
  module.def(
      "load_plugin", [](const Path& path) { AllLayers().LoadPlugin(path.string()); },
      nb::arg("path"), nb::sig("def load_plugin(path: str | os.PathLike[str]) -> None"),
      nb::call_guard<GilReleased>(),
      "Loads a shared library with layer types for nets and models that are opened later.\n"
      "Its code runs in this process. Raises Error. Any number of threads.");
  module.def("log", [](const std::string& text) { Log().Write(crema::Severity::kInfo, text); });
  module.def("set_log_level", &SetLogLevel, nb::arg("level"),
             "0: log everything to stderr; 1 (default): warnings and errors; 2: errors.");
}
