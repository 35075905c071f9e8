// Errors reported to clients.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"

namespace crema::server {

// Category of an error; also a metric label, so there are few.
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
// Returns for example "bad_request"; lower case with underscores.
std::string_view Label(Cause cause);

// Its message is sent to the client: it must not contain paths.
class RequestError final : public Error {
 public:
  RequestError(Cause cause, std::string message, std::string detail = {}, std::string allow = {});
  Cause cause() const { return cause_; }
  const std::string& message() const { return problems().front().message; }
  // For the log; may contain paths. Empty: no details.
  const std::string& detail() const { return detail_; }
  // Methods that the path takes instead, of kMethodNotAllowed: "GET, HEAD".
  const std::string& allow() const { return allow_; }

 private:
  Cause cause_;
  std::string detail_;
  std::string allow_;
};

[[noreturn]] void Refuse(Cause cause, std::string message);

// Converts any exception from work on a request. A model's errors about its inputs are passed on;
// others become "internal error" with a detail, since messages about files contain paths.
RequestError ToRequestError(const std::exception_ptr& failure);

// Shared, since copying an error may fail for lack of memory.
using SharedFailure = std::shared_ptr<const RequestError>;
// Makes a failure, or the one of "out of memory".
SharedFailure MakeFailure(Cause cause, std::string_view message) noexcept;
SharedFailure ToFailure(const std::exception_ptr& failure) noexcept;

}  // namespace crema::server
