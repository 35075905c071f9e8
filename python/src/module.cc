// The extension module crema._core.
#include "arrays.h"
#include "log.h"

NB_MODULE(_core, module) {
  using namespace crema::python;  // NOLINT(google-build-using-namespace)
  module.doc() = "The C++ half of the package crema.";
  module.attr("__version__") = CREMA_VERSION;
  nb::set_leak_warnings(false);  // a program may end while it holds nets
  BindErrors(module);
  BindBlobs(module);
  BindNet(module);
  BindSolver(module);
  BindModel(module);
  BindDnn(module);
  module.def(
      "layer_types", [] { return Layers().Names(); }, "The names of all layer types.");
  module.def("log", [](const std::string& text) { Log().Write(crema::Severity::kInfo, text); });
  module.def("set_log_level", &SetLogLevel, nb::arg("level"),
             "0: log everything to stderr; 1 (default): warnings and errors; 2: errors.");
}
