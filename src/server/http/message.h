// HTTP requests and responses, independent of the library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/request_error.h"

namespace crema::server {

struct HttpHead {
  std::string method;
  std::string path;   // begins with '/'
  std::string query;  // after '?', without it
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;

  // Returns an empty text if missing. `name` is lower case.
  std::string_view Find(std::string_view name) const;
};

struct HttpRequest {
  HttpHead head;
  std::shared_ptr<const std::string> body;
  std::string id;  // from X-Request-Id, or generated
  // Set when the client closes the connection; null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string body = {};
};

// Called once, on any thread.
using HttpRespond = std::function<void(HttpResponse)>;

struct HttpLogEntry {
  const HttpHead* head = nullptr;  // null: it could not be parsed
  std::string id;
  std::string peer;
  int status = 0;
  size_t request_bytes = 0;
  size_t response_bytes = 0;
  std::chrono::steady_clock::duration duration{};
};

// Answers requests. Thread safety: any number of threads.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called before the body is read. Returns its maximum length. Throws RequestError.
  virtual size_t Admit(const HttpHead& head) = 0;
  // Must not throw or block for long.
  virtual void Handle(HttpRequest request, HttpRespond respond) = 0;
  virtual HttpResponse Explain(const RequestError& error) = 0;
  virtual void Log(const HttpLogEntry& entry) = 0;
  virtual void ConnectionsChanged(int change) = 0;
  // Reports an unexpected exception that ended a connection.
  virtual void ReportFailure(const std::exception_ptr& failure) noexcept = 0;
};

}  // namespace crema::server
