// Functions to write the table of bad requests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "server/bad_requests.h"

namespace crema::test {

class BadRequestTable {
 public:
  void Raw(std::string name, std::string bytes, int status = 400) {
    rows_.push_back({std::move(name), std::move(bytes), status});
  }
  // A body that is sent to the model.
  void Infer(const std::string& name, const std::string& body, int status = 400,
             const std::string& fields = "") {
    Raw("infer: " + name,
        StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
               "\r\n", fields, "\r\n", body),
        status);
  }
  // One input with these fields in place of good ones.
  void Input(const std::string& name, const std::string& fields, int status = 400) {
    Infer("input: " + name, StrCat(R"({"inputs":[{)", fields, "}]}"), status);
  }
  void Shape(const std::string& dims, int status = 400) {
    Input("shape " + dims.substr(0, 60),
          StrCat(R"("name":"x","datatype":"FP32","shape":)", dims, R"(,"data":[1,2,3,4])"), status);
  }
  void Data(const std::string& data, int status = 400) {
    Input("data " + data.substr(0, 60),
          StrCat(R"("name":"x","datatype":"FP32","shape":[1,4],"data":)", data), status);
  }
  void Head(const std::string& name, const std::string& head, int status = 400) {
    Raw("head: " + name, head + "\r\n\r\n", status);
  }
  void Field(const std::string& name, const std::string& field, int status = 400) {
    Raw("field: " + name, StrCat("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n", field, "\r\n\r\n"),
        status);
  }
  void Path(const std::string& path, int status, const std::string& method = "GET") {
    Raw(StrCat("path: ", method, " ", path.substr(0, 60)),
        StrCat(method, " ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), status);
  }
  void Chunks(const std::string& name, const std::string& body, int status = 400) {
    Raw("chunks: " + name,
        StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
               body),
        status);
  }
  std::vector<BadRequest> Take() { return std::move(rows_); }

 private:
  std::vector<BadRequest> rows_;
};

inline std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Bodies of requests for inference.
void AddBadBodies(BadRequestTable* table);

}  // namespace crema::test
