#include "server/http/multipart.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/strings.h"
#include "server/http/field_text.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

[[noreturn]] void BadForm(std::string_view what) {
  Refuse(Cause::kBadRequest, StrCat("the multipart/form-data body ", what));
}

// FieldParameters of a header field: `; name=value; name="quoted"`. Takes one from the front.
class FieldParameters {
 public:
  explicit FieldParameters(std::string_view text) : left_(TrimSpaces(text)) {}

  struct Parameter {
    std::string_view name;
    std::string_view value;  // quoted pairs are not decoded
  };
  // Returns nothing at the end.
  std::optional<Parameter> Take() {
    if (left_.empty()) return std::nullopt;
    if (left_.front() != ';') BadForm("has a header field with text between its parameters");
    left_ = TrimSpaces(left_.substr(1));
    if (left_.empty()) return std::nullopt;
    const size_t equals = left_.find('=');
    if (equals == std::string_view::npos) BadForm("has a parameter without '='");
    Parameter parameter{TrimSpaces(left_.substr(0, equals)), {}};
    left_ = TrimSpaces(left_.substr(equals + 1));
    parameter.value = left_.starts_with('"') ? TakeQuoted() : TakeToken();
    left_ = TrimSpaces(left_);
    return parameter;
  }

 private:
  std::string_view TakeQuoted() {
    size_t end = 1;
    while (end < left_.size() && left_[end] != '"') end += left_[end] == '\\' ? 2 : 1;
    if (end >= left_.size()) BadForm("has a parameter whose quotes do not end");
    const std::string_view value = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return value;
  }
  std::string_view TakeToken() {
    const size_t end = std::min(left_.find(';'), left_.size());
    const std::string_view value = TrimSpaces(left_.substr(0, end));
    left_.remove_prefix(end);
    return value;
  }

  std::string_view left_;
};

// Letters of RFC 2046; a space is allowed there, but no client sends one.
bool IsBoundary(std::string_view text) {
  constexpr size_t kMost = 70;
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [](char c) {
    return (Lower(c) >= 'a' && Lower(c) <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("'()+_,-./:=?").find(c) != std::string_view::npos;
  });
}

// Requires: multipart/form-data, and what follows.
std::string_view BoundaryOf(std::string_view parameters) {
  std::string_view boundary;
  FieldParameters left(parameters);
  while (const auto parameter = left.Take()) {
    if (!EqualsIgnoringCase(parameter->name, "boundary")) continue;
    if (!boundary.empty()) BadForm("has two boundaries in its Content-Type");
    boundary = parameter->value;
    if (!IsBoundary(boundary)) BadForm("has no valid boundary in its Content-Type");
  }
  if (boundary.empty()) BadForm("has no boundary in its Content-Type");
  return boundary;
}

// Removes a line of the head of a part from the front, without its end.
std::string_view TakeFormLine(std::string_view* bytes) {
  constexpr size_t kMostLine = 1024;
  const size_t end = bytes->substr(0, kMostLine).find(kLineEnd);
  if (end == std::string_view::npos) BadForm("has a part whose head does not end, or is too long");
  const std::string_view line = bytes->substr(0, end);
  bytes->remove_prefix(end + kLineEnd.size());
  return line;
}

// Returns true if the part is a file.
bool CheckDisposition(std::string_view value) {
  const size_t end = std::min(value.find(';'), value.size());
  if (!EqualsIgnoringCase(TrimSpaces(value.substr(0, end)), "form-data")) {
    BadForm("has a part whose Content-Disposition is not form-data");
  }
  bool is_file = false;
  FieldParameters left(value.substr(end));
  while (const auto parameter = left.Take()) {
    is_file |= EqualsIgnoringCase(parameter->name, "filename") ||
               EqualsIgnoringCase(parameter->name, "filename*");
  }
  return is_file;
}

// Removes the head of the part, which has to be a file, from the front.
void TakePartHead(std::string_view* bytes) {
  constexpr int kMostFormFields = 16;
  std::optional<bool> is_file;
  for (int i = 0;; ++i) {
    const std::string_view line = TakeFormLine(bytes);
    if (line.empty()) break;
    if (i == kMostFormFields) BadForm("has a part with too many header fields");
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) BadForm("has a header field without a colon");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = TrimSpaces(line.substr(colon + 1));
    if (EqualsIgnoringCase(name, "content-disposition")) {
      if (is_file) BadForm("has a part with two Content-Dispositions");
      is_file = CheckDisposition(value);
    } else if (EqualsIgnoringCase(name, "content-transfer-encoding") &&
               !EqualsIgnoringCase(value, "binary") && !EqualsIgnoringCase(value, "8bit")) {
      BadForm("has an encoded file; send its bytes as they are");
    }
  }
  if (!is_file) BadForm("has a part without Content-Disposition");
  if (!*is_file) {
    BadForm(
        "has a part that is no file: send the image as -F file=@x.png, and parameters in the "
        "query, "
        "?model=NAME");
  }
}

}  // namespace

std::string_view FileOfBody(std::string_view content_type, std::string_view body) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (!EqualsIgnoringCase(TrimSpaces(content_type.substr(0, end)), "multipart/form-data")) {
    return body;
  }
  const std::string delimiter = StrCat("--", BoundaryOf(content_type.substr(end)));
  if (!body.starts_with(delimiter)) BadForm("does not begin with the boundary of its Content-Type");
  body.remove_prefix(delimiter.size());
  if (body.starts_with("--")) BadForm("has no file: send the image as -F file=@x.png");
  if (!TrimSpaces(TakeFormLine(&body)).empty()) BadForm("has text after its first boundary");
  TakePartHead(&body);
  const size_t length = body.find(StrCat(kLineEnd, delimiter));
  if (length == std::string_view::npos) BadForm("ends before the boundary after the file");
  const std::string_view file = body.substr(0, length);
  body.remove_prefix(length + kLineEnd.size() + delimiter.size());
  if (body.empty()) BadForm("ends within the boundary after the file");
  if (TrimSpaces(body.substr(0, std::min(body.find(kLineEnd), body.size()))).empty()) {
    BadForm("has several parts; send one image, and parameters in the query, ?model=NAME");
  }
  if (body != "--" && body != "--\r\n") BadForm("does not end with its boundary and '--'");
  if (file.empty()) BadForm("has an empty file");
  return file;
}

}  // namespace crema::server
