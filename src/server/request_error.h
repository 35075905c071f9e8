// What a client is told where its request is not answered.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/error.h"

namespace crema::server {

// Why; the label of a metric too, so there are few.
enum class Cause {
  kBadRequest,
  kUnauthorized,
  kForbidden,
  kNotFound,
  kMethodNotAllowed,
  kSlowClient,
  kTooLarge,
  kMediaType,
  kExpectation,
  kHeaderTooLarge,
  kInternal,
  kQueueFull,
  kQueueTimeout,
  kUnavailable,
  kCancelled,  // by the client
};
inline constexpr int kCauses = 15;

int HttpStatus(Cause cause);
std::string_view ReasonPhrase(int http_status);
// "bad_request", "queue_full"; lower case with underscores.
std::string_view Label(Cause cause);

// Its message goes to the client: it carries no paths.
class RequestError final : public Error {
 public:
  RequestError(Cause cause, std::string message, std::string detail = {});
  Cause cause() const { return cause_; }
  const std::string& message() const { return problems().front().message; }
  // For the log; may carry paths. Empty: there is no more to say.
  const std::string& detail() const { return detail_; }

 private:
  Cause cause_;
  std::string detail_;
};

[[noreturn]] void Refuse(Cause cause, std::string message);

// The same for any exception that work on a request ended with. What a model says of its inputs is
// passed on; all else is "internal error" with a detail, since messages of files carry paths.
RequestError ToRequestError(const std::exception_ptr& failure);

}  // namespace crema::server
