#include "user_code.h"

#include <nanobind/stl/string.h>

#include "core/error.h"
#include "layers/python/python_layers.h"

namespace crema::python {

void Rethrow(const std::string& layer, const nb::python_error& error) {
  if (!IsPythonEmbedded()) throw;
  const nb::object text = nb::module_::import_("crema._errors").attr("describe")(error.value());
  Fail(ErrorCode::kInvalidArgument, nb::cast<std::string>(text), {.layer = layer});
}

UserObject::~UserObject() {
  if (!nb::is_alive()) {
    object_.release();
    return;
  }
  const GilHeld gil;
  object_.reset();
}

}  // namespace crema::python
