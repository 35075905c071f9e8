#include "server/request_error.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace crema::server {
namespace {

struct CauseRow {
  Cause cause;
  int http_status;
  std::string_view label;
  std::string_view reason_phrase;
};

constexpr std::array<CauseRow, kCauses> kRows = {{
    {Cause::kBadRequest, 400, "bad_request", "Bad Request"},
    {Cause::kUnauthorized, 401, "unauthorized", "Unauthorized"},
    {Cause::kForbidden, 403, "forbidden", "Forbidden"},
    {Cause::kNotFound, 404, "not_found", "Not Found"},
    {Cause::kMethodNotAllowed, 405, "method_not_allowed", "Method Not Allowed"},
    {Cause::kSlowClient, 408, "slow_client", "Request Timeout"},
    {Cause::kTooLarge, 413, "too_large", "Payload Too Large"},
    {Cause::kMediaType, 415, "media_type", "Unsupported Media Type"},
    {Cause::kExpectation, 417, "expectation", "Expectation Failed"},
    {Cause::kHeaderTooLarge, 431, "header_too_large", "Request Header Fields Too Large"},
    {Cause::kInternal, 500, "internal", "Internal Server Error"},
    {Cause::kQueueFull, 503, "queue_full", "Service Unavailable"},
    {Cause::kQueueTimeout, 504, "queue_timeout", "Gateway Timeout"},
    {Cause::kUnavailable, 503, "unavailable", "Service Unavailable"},
    {Cause::kCancelled, 503, "cancelled", "Service Unavailable"},
}};

const CauseRow& RowOf(Cause cause) {
  const CauseRow& row = kRows[static_cast<size_t>(cause)];
  CREMA_CHECK(row.cause == cause);
  return row;
}

// Made while there is memory.
const SharedFailure kOutOfMemory =
    std::make_shared<const RequestError>(Cause::kUnavailable, "out of memory");

ErrorCode CodeOf(Cause cause) {
  if (cause == Cause::kInternal) return ErrorCode::kInternal;
  if (cause == Cause::kNotFound) return ErrorCode::kNotFound;
  if (HttpStatus(cause) >= 500) return ErrorCode::kCancelled;
  return ErrorCode::kInvalidArgument;
}

}  // namespace

int HttpStatus(Cause cause) { return RowOf(cause).http_status; }

std::string_view Label(Cause cause) { return RowOf(cause).label; }

std::string_view ReasonPhrase(int http_status) {
  if (http_status == 200) return "OK";
  if (http_status == 304) return "Not Modified";
  const auto* const row = std::ranges::find(kRows, http_status, &CauseRow::http_status);
  return row == kRows.end() ? "Unknown" : row->reason_phrase;
}

RequestError::RequestError(Cause cause, std::string message, std::string detail, std::string allow)
    : Error(Problem{CodeOf(cause), {}, std::move(message)}),
      cause_(cause),
      detail_(std::move(detail)),
      allow_(std::move(allow)) {}

void Refuse(Cause cause, std::string message) { throw RequestError(cause, std::move(message)); }

RequestError ToRequestError(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const RequestError& error) {
    return error;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument) {
      return {Cause::kBadRequest, error.problems().front().message};
    }
    if (error.code() == ErrorCode::kOutOfMemory) return {Cause::kUnavailable, "out of memory"};
    return {Cause::kInternal, "internal error", error.what()};
  } catch (const std::bad_alloc&) {
    return {Cause::kUnavailable, "out of memory"};
  } catch (const std::exception& error) {
    return {Cause::kInternal, "internal error", error.what()};
  }
}

SharedFailure MakeFailure(Cause cause, std::string_view message) noexcept {
  try {
    return std::make_shared<const RequestError>(cause, std::string(message));
  } catch (...) {
    return kOutOfMemory;
  }
}

SharedFailure ToFailure(const std::exception_ptr& failure) noexcept {
  try {
    return std::make_shared<const RequestError>(ToRequestError(failure));
  } catch (...) {
    return kOutOfMemory;
  }
}

}  // namespace crema::server
