// crema::Error as the Python exception crema.Error (crema/_errors.py).
#include "arrays.h"
#include "core/error.h"

namespace crema::python {
namespace {

const char* NameOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kDataLoss:
      return "data_loss";
    case ErrorCode::kIoFailure:
      return "io_failure";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kDeviceFailure:
      return "device_failure";
    case ErrorCode::kDiverged:
      return "diverged";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

nb::object NumberOrNone(int number) {
  return number > 0 ? nb::object(nb::int_(number)) : nb::none();
}
nb::object TextOrNone(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}

void SetFields(const Problem& problem, nb::object* error) {
  error->attr("code") = NameOf(problem.code);
  error->attr("file") = TextOrNone(problem.where.file);
  error->attr("line") = NumberOrNone(problem.where.line);
  error->attr("column") = NumberOrNone(problem.where.column);
  error->attr("layer") = TextOrNone(problem.where.layer);
}

PyObject* error_type = nullptr;  // lives as long as the process

}  // namespace

nb::object ErrorOf(const Problem& problem) {
  nb::object error = nb::handle(error_type)(ToString(problem));
  SetFields(problem, &error);
  return error;
}

void BindErrors(nb::module_&) {
  error_type = nb::object(nb::module_::import_("crema._errors").attr("Error")).release().ptr();
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      nb::object whole = nb::handle(error_type)(error.what());
      SetFields(error.problems().front(), &whole);
      nb::list problems;
      for (const Problem& problem : error.problems()) problems.append(ErrorOf(problem));
      whole.attr("problems") = problems;
      PyErr_SetObject(error_type, whole.ptr());
    }
  });
}

}  // namespace crema::python
