#include "server/protocol/load_json.h"

#include <rapidjson/memorystream.h>

#include <string>

#include "server/protocol/json_reader.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

class LoadHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, LoadHandler> {
 public:
  bool Default() { return depth_ > 0; }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    const std::string_view key(text, length);
    if (depth_ == 1) in_parameters_ = key == "parameters";
    if (depth_ == 2 && in_parameters_) CheckLoadParameter(key);
    return true;
  }
  bool StartObject() { return ++depth_ <= kDeepest; }
  bool EndObject(rapidjson::SizeType) { return --depth_ >= 0; }
  bool StartArray() { return depth_ > 0 && ++depth_ <= kDeepest; }
  bool EndArray(rapidjson::SizeType) { return --depth_ >= 0; }

 private:
  static constexpr int kDeepest = 16;
  int depth_ = 0;
  bool in_parameters_ = false;
};

class IndexHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, IndexHandler> {
 public:
  bool ready() const { return ready_; }

  bool Default() { return depth_ == 1 && key_ != "ready"; }
  bool Bool(bool value) {
    if (key_ == "ready") ready_ = value;
    return depth_ == 1;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    key_.assign(text, length);
    return true;
  }
  // A single flat object.
  bool StartObject() { return ++depth_ == 1; }
  bool EndObject(rapidjson::SizeType) { return true; }
  bool StartArray() { return false; }

 private:
  std::string key_;
  int depth_ = 0;
  bool ready_ = false;
};

template <typename Handler>
void Parse(std::string_view body, const char* expected, Handler* handler) {
  JsonReader reader;
  rapidjson::MemoryStream stream(body.data(), body.size());
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
  if (body.find('\0') != std::string_view::npos ||
      reader.Parse<kFlags>(stream, *handler).IsError()) {
    Refuse(Cause::kBadRequest, std::string("the body is not like ") + expected);
  }
}

}  // namespace

void CheckLoadParameter(std::string_view name) {
  if (name != "config" && name != "files" && !name.starts_with("file:")) return;
  Refuse(Cause::kBadRequest,
         "the parameters 'config' and 'file:PATH' are not supported: a model is loaded from its "
         "folder in the repository only");
}

void CheckLoadBody(std::string_view body) {
  if (body.empty()) return;
  LoadHandler handler;
  Parse(body, "{\"parameters\":{}}", &handler);
}

bool AsksForReady(std::string_view body) {
  if (body.empty()) return false;
  IndexHandler handler;
  Parse(body, "{\"ready\":true}", &handler);
  return handler.ready();
}

}  // namespace crema::server
