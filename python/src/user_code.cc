#include "user_code.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "core/error.h"
#include "layers/python/python_layers.h"

namespace crema::python {

thread_local bool lists_exceptions = false;

ListExceptions::ListExceptions() : before_(std::exchange(lists_exceptions, true)) {}
ListExceptions::~ListExceptions() { lists_exceptions = before_; }

void Rethrow(const std::string& layer, const nb::python_error& error) {
  if (!IsPythonEmbedded() && !(lists_exceptions && error.matches(PyExc_Exception))) throw;
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
