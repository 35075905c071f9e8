#include "server/request_error.h"

#include <array>
#include <new>
#include <utility>

namespace crema::server {
namespace {

struct CauseRow {
  Cause cause;
  int http_status;
  std::string_view label;
};

constexpr std::array<CauseRow, kCauses> kRows = {{
    {Cause::kBadRequest, 400, "bad_request"},
    {Cause::kUnauthorized, 401, "unauthorized"},
    {Cause::kForbidden, 403, "forbidden"},
    {Cause::kNotFound, 404, "not_found"},
    {Cause::kMethodNotAllowed, 405, "method_not_allowed"},
    {Cause::kSlowClient, 408, "slow_client"},
    {Cause::kTooLarge, 413, "too_large"},
    {Cause::kMediaType, 415, "media_type"},
    {Cause::kExpectation, 417, "expectation"},
    {Cause::kHeaderTooLarge, 431, "header_too_large"},
    {Cause::kInternal, 500, "internal"},
    {Cause::kQueueFull, 503, "queue_full"},
    {Cause::kQueueTimeout, 504, "queue_timeout"},
    {Cause::kUnavailable, 503, "unavailable"},
    {Cause::kCancelled, 503, "cancelled"},
}};

const CauseRow& RowOf(Cause cause) {
  const CauseRow& row = kRows[static_cast<size_t>(cause)];
  CREMA_CHECK(row.cause == cause);
  return row;
}

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
  switch (http_status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

RequestError::RequestError(Cause cause, std::string message, std::string detail)
    : Error(Problem{CodeOf(cause), {}, std::move(message)}),
      cause_(cause),
      detail_(std::move(detail)) {}

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

}  // namespace crema::server
