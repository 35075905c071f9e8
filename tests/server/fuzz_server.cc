#include "server/fuzz_server.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "core/strings.h"
#include "server/bad_requests.h"
#include "server/fake_model.h"
#include "server/http/body_reader.h"
#include "server/http/head_parser.h"
#include "server/http/multipart.h"
#include "server/http/routes.h"
#include "server/model/image_file.h"
#include "server/protocol/check_request.h"
#include "server/protocol/infer_json.h"
#include "server/protocol/names.h"
#include "server/request_error.h"

namespace crema::test {
namespace {

using namespace server;

// Invariants of all requests.
void Require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

template <typename Body>
std::string RefusalOf(Body&& body) {
  try {
    body();
  } catch (const RequestError& error) {
    Require(HttpStatus(error.cause()) >= 400 && HttpStatus(error.cause()) < 500,
            "a request is the server's fault");
    return error.what();
  }
  return {};
}

std::string WithLength(size_t length, const std::string& body) {
  return std::string{static_cast<char>(length & 255), static_cast<char>(length >> 8)} + body;
}

}  // namespace

std::string TryHttpHead(std::string_view bytes) {
  return RefusalOf([&] {
    const HttpHead head = ParseHead(bytes);
    Require(head.path.starts_with('/'), "a path begins with something else");
    Require(!(head.chunked && head.content_length), "a body has two ends");
    for (const auto& [name, value] : head.fields) {
      Require(value.find_first_of("\r\n") == std::string::npos, "a field has two lines");
    }
    const RouteMatch match = FindRoute(head.method, head.path);
    Require(match.model.empty() || IsModelName(match.model), "a name is none");
  });
}

std::string TryHttpBody(std::string_view bytes) {
  constexpr size_t kMost = 4096;
  HttpHead head;
  head.chunked = true;
  // In pieces of this size; returns the body, or the reason for its refusal.
  const auto read = [&](size_t piece) {
    ByteBudget budget(size_t{1} << 20);
    BodyReader reader(head, kMost, budget);
    std::string waiting;
    const std::string refusal = RefusalOf([&] {
      for (size_t at = 0; at < bytes.size() && !reader.done(); at += piece) {
        waiting += bytes.substr(at, piece);
        waiting.erase(0, reader.Take(waiting));
        // The next request follows.
        Require(reader.done() || waiting.size() <= ChunkDecoder::kMostLine + 2,
                "more is kept than a line");
      }
    });
    Require(reader.body().size() <= kMost, "a body is longer than it may be");
    if (!refusal.empty()) return refusal;
    return reader.done() ? "!" + reader.body() : std::string("it does not end");
  };
  const std::string once = read(std::max<size_t>(bytes.size(), 1));
  Require((once[0] == '!') == (read(1)[0] == '!'), "pieces make a difference");
  if (once[0] == '!') Require(once == read(1), "pieces change a body");
  return once[0] == '!' ? "" : once;
}

std::string TryMultipart(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view type = bytes.substr(0, end);
  const std::string_view body = bytes.substr(std::min(end + 1, bytes.size()));
  return RefusalOf([&] {
    const std::string_view file = FileOfBody(type, body);
    if (file.data() == body.data() && file.size() == body.size()) return;
    Require(!file.empty() && file.data() > body.data() &&
                file.data() + file.size() < body.data() + body.size(),
            "a file is not inside of its form");
    const size_t boundary = body.find("\r\n");
    Require(file.find(StrCat("\r\n", body.substr(0, boundary))) == std::string_view::npos,
            "a file holds a boundary");
  });
}

std::string TryInfer(std::string_view bytes) {
  static const FakeModel tensors;
  static const FakeModel pictures(WithPictures());
  if (bytes.size() < 2) return "nothing";
  const auto low = static_cast<unsigned char>(bytes[0]);
  const auto high = static_cast<unsigned char>(bytes[1]);
  const size_t length = low + size_t{256} * high;
  RequestLimits limits;
  limits.elements = 1 << 16;
  return RefusalOf([&] {
    InferRequest request =
        ParseInferRequest(std::make_shared<const std::string>(bytes.substr(2)),
                          length == 65535 ? std::nullopt : std::optional<size_t>(length), limits);
    int64_t elements = 0;
    for (const InputTensor& input : request.inputs) {
      elements += input.shape.count();
      if (!input.images.empty()) {
        Require(static_cast<int64_t>(input.images.size()) == input.shape.count(),
                "an input has not as many images as it says");
        continue;
      }
      Require(static_cast<int64_t>(input.bytes().size()) == input.shape.count() * 4,
              "an input has not as many bytes as it says");
    }
    Require(elements <= limits.elements, "there are more elements than may be");
    const ModelDescription& model = (HasImages(request) ? pictures : tensors).description();
    DecodeImages(model, 16, limits, &request);
    const int64_t samples = FitRequest(model, 16, &request);
    Require(samples >= 1 && samples <= 16 && request.inputs.size() == 1,
            "a request fits that does not");
  });
}

std::vector<std::string> ServerCorpus(const std::string& target) {
  const std::string body =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
  const std::string binary = R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",)"
                             R"("parameters":{"binary_data_size":16}}],)"
                             R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  std::vector<std::string> corpus;
  if (target == "httphead") {
    corpus.emplace_back("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
  } else if (target == "httpbody") {
    corpus.emplace_back("5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n");
    corpus.push_back("1\r\na\r\n0\r\n\r\n" + std::string(300, 'x'));
  } else if (target == "multipart") {
    const std::string type = "multipart/form-data; boundary=b\n";
    const std::string part =
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nabc\r\n";
    corpus.push_back(type + part + "--b--");
    corpus.push_back(type + part + part + "--b--\r\n");
    corpus.push_back(type + "--b\r\nContent-Disposition: form-data; name=f\r\n\r\nx\r\n--b--\r\n");
    return corpus;
  } else {
    corpus.push_back(WithLength(65535, body));
    corpus.push_back(WithLength(binary.size(), binary + std::string(16, '\0')));
    const std::string image = std::string("\xf\0\0\0", 4) + "P5\n2 2\n255\nabcd";
    const std::string images = R"({"inputs":[{"name":"x","shape":[2],"datatype":"BYTES",)"
                               R"("parameters":{"binary_data_size":38}}]})";
    corpus.push_back(WithLength(images.size(), images + image + image));
  }
  for (const BadRequest& request : BadRequests()) {
    const size_t end = request.bytes.find("\r\n\r\n");
    if (end == std::string::npos || request.bytes.size() > 60000) continue;
    if (target == "httphead") {
      corpus.push_back(request.bytes.substr(0, end + 4));
    } else if (target == "httpbody") {
      corpus.push_back(request.bytes.substr(end + 4));
    } else if (request.name.starts_with("in")) {
      corpus.push_back(WithLength(65535, request.bytes.substr(end + 4)));
    }
  }
  return corpus;
}

}  // namespace crema::test
