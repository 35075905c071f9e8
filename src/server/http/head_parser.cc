#include "server/http/head_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/strings.h"
#include "server/http/field_text.h"

namespace crema::server {
namespace {

constexpr size_t kMostFields = 64;
constexpr size_t kMostTarget = 2048;

[[noreturn]] void BadHead(std::string message) { Refuse(Cause::kBadRequest, std::move(message)); }

bool IsTokenChar(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenChar);
}

// Name and port; user information is not allowed.
bool IsAuthority(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return IsTokenChar(c) || c == ':' || c == '[' || c == ']'; });
}

// Removes a line from the front, without its end.
std::string_view TakeLine(std::string_view* bytes) {
  const size_t end = bytes->find("\r\n");
  if (end == std::string_view::npos) BadHead("the head does not end");
  const std::string_view line = bytes->substr(0, end);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) BadHead("a control character in the head");
  }
  bytes->remove_prefix(end + 2);
  return line;
}

// Returns the path of "http://x:80/v2", the form for proxies. Models do not depend on the host
// name.
std::string_view WithoutAuthority(std::string_view target) {
  const std::string scheme = Lower(target.substr(0, target.find(':')));
  if (target.starts_with('/') || (scheme != "http" && scheme != "https")) return target;
  target.remove_prefix(scheme.size());
  if (!target.starts_with("://")) BadHead("the target is none");
  target.remove_prefix(3);
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  if (!IsAuthority(target.substr(0, end)) || end == 0) BadHead("the target names no machine");
  target.remove_prefix(end);
  return target.empty() ? "/" : target;
}

void ParseTarget(std::string_view target, HttpHead* head) {
  if (target.size() > kMostTarget) BadHead("the target is too long");
  target = WithoutAuthority(target);
  if (!target.starts_with('/')) BadHead("the target does not begin with '/'");
  for (const char c : target) {
    if (c <= 0x20 || c >= 0x7f ||
        std::string_view("\"<>\\^`{|}#").find(c) != std::string_view::npos) {
      BadHead("a character in the target that must be encoded");
    }
  }
  const size_t question = target.find('?');
  head->path = target.substr(0, question);
  if (question != std::string_view::npos) head->query = target.substr(question + 1);
}

void ParseRequestLine(std::string_view line, HttpHead* head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    BadHead("the request line has not three parts");
  head->method = line.substr(0, first);
  if (!IsToken(head->method)) BadHead("the method is not a token");
  const std::string_view version = line.substr(last + 1);
  if (version == "HTTP/1.0") {
    head->minor_version = 0;
  } else if (version != "HTTP/1.1") {
    BadHead("the version is neither HTTP/1.1 nor HTTP/1.0");
  }
  ParseTarget(line.substr(first + 1, last - first - 1), head);
}

void ParseField(std::string_view line, HttpHead* head) {
  if (head->fields.size() >= kMostFields) {
    Refuse(Cause::kHeaderTooLarge, StrCat("more than ", kMostFields, " header fields"));
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) BadHead("a header field without a colon");
  const std::string_view name = line.substr(0, colon);
  if (!IsToken(name)) BadHead("the name of a header field is not a token");
  head->fields.emplace_back(Lower(name), std::string(TrimSpaces(line.substr(colon + 1))));
}

size_t CountOf(const HttpHead& head, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(
      head.fields, name, [](const auto& field) { return std::string_view(field.first); }));
}

void RefuseRepeated(const HttpHead& head) {
  constexpr std::array<std::string_view, 11> kOnce = {
      "host",          "content-length", "transfer-encoding",
      "authorization", "content-type",   "content-encoding",
      "expect",        "origin",         "inference-header-content-length",
      "connection",    "x-request-id"};
  for (const std::string_view name : kOnce) {
    if (CountOf(head, name) > 1) BadHead(StrCat("the header field ", name, " appears twice"));
  }
}

void CheckHost(const HttpHead& head) {
  const std::string_view host = head.Find("host");
  if (CountOf(head, "host") == 0) {
    if (head.minor_version > 0) BadHead("there is no Host");
    return;
  }
  if (!IsAuthority(host)) BadHead("Host is not a host name");
}

void ParseFraming(HttpHead* head) {
  const bool has_length = CountOf(*head, "content-length") > 0;
  if (has_length) {
    const std::string_view text = head->Find("content-length");
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
        !(text[0] >= '0' && text[0] <= '9')) {
      BadHead("Content-Length is not a number");
    }
    head->content_length = length;
  }
  if (CountOf(*head, "transfer-encoding") == 0) return;
  if (head->minor_version == 0) BadHead("Transfer-Encoding in HTTP/1.0");
  if (has_length) BadHead("both Transfer-Encoding and Content-Length");
  if (Lower(head->Find("transfer-encoding")) != "chunked") {
    BadHead("a Transfer-Encoding other than chunked");
  }
  head->chunked = true;
}

void ParseConnection(HttpHead* head) {
  head->keep_alive = head->minor_version > 0;
  for (const std::string& word : Split(Lower(head->Find("connection")), ',')) {
    const std::string_view option = TrimSpaces(word);
    if (option == "close") head->keep_alive = false;
    if (option == "keep-alive" && head->minor_version == 0) head->keep_alive = true;
  }
}

}  // namespace

std::string_view HttpHead::Find(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return value;
  }
  return {};
}

HttpHead ParseHead(std::string_view bytes) {
  HttpHead head;
  ParseRequestLine(TakeLine(&bytes), &head);
  for (;;) {
    const std::string_view line = TakeLine(&bytes);
    if (line.empty()) break;
    ParseField(line, &head);
  }
  if (!bytes.empty()) BadHead("the head does not end where it should");
  RefuseRepeated(head);
  CheckHost(head);
  ParseFraming(&head);
  ParseConnection(&head);
  return head;
}

std::string WriteHead(const HttpResponse& response, const std::string& id, bool keep_alive) {
  std::string head = StrCat("HTTP/1.1 ", response.status, ' ', ReasonPhrase(response.status),
                            "\r\nContent-Length: ", response.body.size(),
                            "\r\nContent-Type: ", response.content_type, "\r\nX-Request-Id: ", id,
                            "\r\nX-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : response.fields) head += StrCat(name, ": ", value, "\r\n");
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace crema::server
