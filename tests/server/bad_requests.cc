#include "server/bad_requests.h"

#include <utility>

#include "core/strings.h"

namespace crema::test {
namespace {

class Table {
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
  void Shape(const std::string& extents, int status = 400) {
    Input("shape " + extents.substr(0, 60),
          StrCat(R"("name":"x","datatype":"FP32","shape":)", extents, R"(,"data":[1,2,3,4])"),
          status);
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

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string& Good() {
  static const std::string body =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
  return body;
}

void AddShapes(Table* table) {
  for (const char* extents : {"[]",       "[4]",
                              "[1]",      "[1,3]",
                              "[1,5]",    "[4,1]",
                              "[1,1,4]",  "[1,4,1]",
                              "[2,2]",    "[0,4]",
                              "[1,0]",    "[0]",
                              "[-1,4]",   "[1,-4]",
                              "[-1,-4]",  "[-9223372036854775808,4]",
                              "[1.5,4]",  "[1,4.0]",
                              "[1e0,4]",  "[\"1\",4]",
                              "[null,4]", "[true,4]",
                              "[[1,4]]",  "[{},4]",
                              "4",        "\"1,4\"",
                              "null",     "{}",
                              "true",     "[18446744073709551616,4]",
                              "[1e30,4]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]",
                              "[-0.5,4]", "[17,4]",
                              "[100,4]"}) {
    table->Shape(extents);
  }
  for (const char* extents :
       {"[9223372036854775807,4]", "[4294967296,4294967296]", "[2147483648,4294967296,2]",
        "[9223372036854775807,9223372036854775807]", "[3037000500,3037000500]",
        "[65536,65536,65536,65536]", "[16777217,1]", "[4611686018427387904,4]",
        "[1000000000000,1000000000000,1000000]", "[16777216,2]", "[18446744073709551615,1]"}) {
    table->Shape(extents, std::string(extents).starts_with("[184") ? 400 : 413);
  }
}

void AddData(Table* table) {
  for (const char* data : {"[]",
                           "[1]",
                           "[1,2,3]",
                           "[1,2,3,4,5]",
                           "[[1,2],[3]]",
                           "[1,2,3,\"4\"]",
                           "[1,2,3,null]",
                           "[1,2,3,true]",
                           "[1,2,3,{}]",
                           "[1,2,3,1e39]",
                           "[1,2,3,-1e39]",
                           "[1,2,3,1e400]",
                           "[1,2,3,NaN]",
                           "[1,2,3,Infinity]",
                           "[1,2,3,-Infinity]",
                           "[1,2,3,nan]",
                           "[1,2,3,0x4]",
                           "[1,2,3,04]",
                           "[1,2,3,.4]",
                           "[1,2,3,4.]",
                           "[1,2,3,+4]",
                           "[1,2,3,4e]",
                           "[1,2,3,--4]",
                           "[1,2,3,4,]",
                           "[1,2,,4]",
                           "[,1,2,3]",
                           "[1 2 3 4]",
                           "4",
                           "\"AAAA\"",
                           "null",
                           "{}",
                           "true",
                           "[1,2,3,4}",
                           "[1,2,3,4",
                           "{\"0\":1}",
                           "[1,2,3,1_000]",
                           "[1,2,3,'4']",
                           "[1,2,3,4]]"}) {
    table->Data(data);
  }
  table->Data(Repeated("[", 100) + "1" + Repeated("]", 100));
  table->Data(Repeated("[", 100000));
}

void AddInputs(Table* table) {
  for (const char* type : {"FP64",  "FP16",   "BF16",   "INT8",   "INT16",  "INT32",    "INT64",
                           "UINT8", "UINT16", "UINT32", "UINT64", "BOOL",   "BYTES",    "fp32",
                           "FP32 ", "float",  "",       "FP33",   "string", "TYPE_FP32"}) {
    table->Input(StrCat("datatype ", type),
                 StrCat(R"("name":"x","shape":[1,4],"datatype":")", type, R"(","data":[1,2,3,4])"));
  }
  for (const auto& [name, fields] : std::vector<std::pair<std::string, std::string>>{
           {"no name", R"("shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"no shape", R"("name":"x","datatype":"FP32","data":[1,2,3,4])"},
           {"no datatype", R"("name":"x","shape":[1,4],"data":[1,2,3,4])"},
           {"no data", R"("name":"x","shape":[1,4],"datatype":"FP32")"},
           {"nothing", ""},
           {"name is a number", R"("name":1,"shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"name is null", R"("name":null,"shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"datatype is a number", R"("name":"x","shape":[1,4],"datatype":32,"data":[1,2,3,4])"},
           {"unknown name", R"("name":"q","shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"empty name", R"("name":"","shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"long name", StrCat(R"("name":")", Repeated("x", 300),
                                R"(","shape":[1,4],"datatype":"FP32","data":[1,2,3,4])")},
           {"name twice",
            R"("name":"x","name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"shape twice",
            R"("name":"x","shape":[1,4],"shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"},
           {"data twice",
            R"("name":"x","shape":[1,4],"datatype":"FP32","data":[1,2],"data":[3,4])"},
           {"shared memory", R"("name":"x","shape":[1,4],"datatype":"FP32","parameters":)"
                             R"({"shared_memory_region":"r","shared_memory_byte_size":16})"},
           {"binary without bytes", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                    R"("parameters":{"binary_data_size":16})"},
           {"binary and data", R"("name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4],)"
                               R"("parameters":{"binary_data_size":16})"},
           {"binary size negative", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                    R"("parameters":{"binary_data_size":-16})"},
           {"binary size a string", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                    R"("parameters":{"binary_data_size":"16"})"},
           {"binary size huge", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                R"("parameters":{"binary_data_size":18446744073709551615})"},
           {"parameters an array", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                   R"("data":[1,2,3,4],"parameters":[])"},
           {"parameter an object", R"("name":"x","shape":[1,4],"datatype":"FP32",)"
                                   R"("data":[1,2,3,4],"parameters":{"a":{}})"},
       }) {
    table->Input(name, fields);
  }
}

void AddBodies(Table* table) {
  for (const char* body : {"",
                           " ",
                           "{",
                           "}",
                           "[]",
                           "[1]",
                           "1",
                           "\"x\"",
                           "null",
                           "true",
                           "{}",
                           "{\"inputs\"}",
                           "{\"inputs\":}",
                           "{\"inputs\":1}",
                           "{\"inputs\":{}}",
                           "{\"inputs\":null}",
                           "{\"inputs\":\"x\"}",
                           "{\"inputs\":[]}",
                           "{\"inputs\":[1]}",
                           "{\"inputs\":[null]}",
                           "{\"inputs\":[[]]}",
                           "{\"inputs\":[\"x\"]}",
                           "{'inputs':[]}",
                           "{inputs:[]}",
                           "{\"inputs\":[],}",
                           "{\"inputs\":[]}{}",
                           "// x\n{}",
                           "{\"id\":7}",
                           "{\"id\":null}",
                           "{\"id\":[]}",
                           "{\"id\":\"a\",\"id\":\"b\"}",
                           "{\"outputs\":[]}",
                           "{\"parameters\":[]}",
                           "{\"parameters\":1}",
                           "\xef\xbb\xbf{}",
                           "{\"inputs\":[],\"inputs\":[]}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\ud800\"}",
                           "{\"a\":\"\xff\"}",
                           "{\"a\":\"\x01\"}",
                           "{\"a\":\"",
                           "\xff\xfe{\x00"}) {
    table->Infer(StrCat("body ", body), body);
  }
  table->Infer("a zero byte behind", Good() + std::string(1, '\0'));
  table->Infer("a zero byte and more", Good() + std::string(1, '\0') + "junk");
  table->Infer("rest behind", Good() + "x");
  table->Infer("two objects", Good() + Good());
  for (const int cut : {1, 5, 20, 40, 60, 70}) {
    table->Infer(StrCat("cut by ", cut),
                 Good().substr(0, Good().size() - static_cast<size_t>(cut)));
  }
  for (const int depth : {20, 1000, 200000}) {
    table->Infer(StrCat("arrays of depth ", depth), Repeated("[", depth));
    table->Infer(StrCat("objects of depth ", depth), Repeated("{\"a\":", depth));
    table->Infer(StrCat("ignored arrays of depth ", depth),
                 StrCat("{\"a\":", Repeated("[", depth), Repeated("]", depth), "}"));
  }
  table->Infer("the input twice",
               R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]},)"
               R"({"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})");
  table->Infer("ten thousand inputs", StrCat("{\"inputs\":[", Repeated("{},", 10000), "{}]}"), 413);
}

void AddOutputs(Table* table) {
  const auto outputs = [&](const std::string& name, const std::string& list, int status = 400) {
    table->Infer("outputs: " + name,
                 StrCat(Good().substr(0, Good().size() - 1), R"(,"outputs":)", list, "}"), status);
  };
  outputs("unknown", R"([{"name":"q"}])");
  outputs("no name", "[{}]");
  outputs("a number", "[1]");
  outputs("an object", "{}");
  outputs("null", "null");
  outputs("name a number", R"([{"name":1}])");
  outputs("twice", R"([{"name":"y"},{"name":"y"}])");
  outputs("classification negative", R"([{"name":"y","parameters":{"classification":-1}}])");
  outputs("classification a string", R"([{"name":"y","parameters":{"classification":"1"}}])");
  outputs("binary a number", R"([{"name":"y","parameters":{"binary_data":1}}])");
  outputs("binary a string", R"([{"name":"y","parameters":{"binary_data":"true"}}])");
  outputs("shared memory", R"([{"name":"y","parameters":{"shared_memory_region":"r"}}])");
  outputs("a path", R"([{"name":"../../etc/passwd"}])");
  outputs("three hundred", StrCat("[", Repeated("{},", 300), "{}]"), 413);
  const auto parameters = [&](const std::string& text) {
    table->Infer("parameters: " + text,
                 StrCat(Good().substr(0, Good().size() - 1), R"(,"parameters":)", text, "}"));
  };
  for (const char* text :
       {R"({"timeout":-1})", R"({"timeout":"1"})", R"({"timeout":1.5})", R"({"timeout":1e30})",
        R"({"priority":1})", R"({"priority":"high"})", R"({"sequence_id":7})",
        R"({"sequence_id":"a"})", R"({"sequence_start":true})", R"({"sequence_end":true})",
        R"({"binary_data_output":1})", R"({"binary_data_output":"true"})",
        R"({"shared_memory_region":"r"})", R"({"a":[]})", R"({"a":{}})"}) {
    parameters(text);
  }
  const std::string json = R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",)"
                           R"("parameters":{"binary_data_size":16}}]})";
  const auto binary = [&](const std::string& name, const std::string& length, size_t bytes) {
    table->Infer("binary: " + name, json + std::string(bytes, '\0'), 400,
                 StrCat("Inference-Header-Content-Length: ", length, "\r\n"));
  };
  const std::string whole = std::to_string(json.size());
  binary("too few bytes", whole, 15);
  binary("no bytes", whole, 0);
  binary("too many bytes", whole, 17);
  binary("length negative", "-1", 16);
  binary("length no number", "x", 16);
  binary("length hexadecimal", "0x10", 16);
  binary("length with a sign", "+" + whole, 16);
  binary("length too long", std::to_string(json.size() + 1000), 16);
  binary("length beyond 64 bits", "99999999999999999999", 16);
  binary("length too short", std::to_string(json.size() - 1), 16);
  binary("length zero", "0", 16);
  binary("length twice", whole + "\r\nInference-Header-Content-Length: " + whole, 16);
}

void AddPaths(Table* table) {
  for (const char* path :
       {"/v2/models/..", "/v2/models/.", "/v2/models/../../etc/passwd", "/v2/models/m%2f..",
        "/v2/models/%2e%2e", "/v2/models/m%00", "/v2/models/a%20b", "/v2/models/m/versions/0",
        "/v2/models/m/versions/-1", "/v2/models/m/versions/01", "/v2/models/m/versions/1.0",
        "/v2/models/m/versions/x", "/v2/models/m/versions/9223372036854775808",
        "/v2/models/m/versions/", "/v2/models/", "/v2/models/m;x", "/v2/models/m@1",
        "/v2/models/~"}) {
    const bool other = std::string(path).find("/etc/") != std::string::npos;
    table->Path(path, other ? 404 : 400);
  }
  table->Path("/v2/models/" + Repeated("a", 129), 400);
  for (const char* path : {"/x",
                           "/v2/x",
                           "/v1",
                           "/v2/models",
                           "/v2/models/n",
                           "/v2/models/m/x",
                           "/v2//health/live",
                           "/v2/health",
                           "/v2/health/live/",
                           "//",
                           "/V2",
                           "/etc/passwd",
                           "/v2/models/m/versions/2",
                           "/v2/models/m/versions/1/x",
                           "/v2/models/m/versions",
                           "/.git/config",
                           "/v2/shared_memory",
                           "/v2/systemsharedmemory/status",
                           "/v2/models/M",
                           "/index.html",
                           "/..",
                           "/%2e%2e"}) {
    table->Path(path, 404);
  }
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"POST", "/"},
                                                        {"PUT", "/v2"},
                                                        {"DELETE", "/v2/models/m"},
                                                        {"GET", "/v1/classify"},
                                                        {"GET", "/v2/models/m/infer"},
                                                        {"PATCH", "/v2/models/m/infer"},
                                                        {"OPTIONS", "/v2/models/m"},
                                                        {"TRACE", "/v2"},
                                                        {"GET", "/v2/repository/index"},
                                                        {"get", "/v2"},
                                                        {"POST", "/metrics"},
                                                        {"GET", "/v2/repository/models/m/load"},
                                                        {"HEAD", "/v1/classify"},
                                                        {"POST", "/v2/health/live"},
                                                        {"PRI", "/v2"}}) {
    table->Path(path, 405, method);
  }
  table->Path("/v2/repository/models/m/load", 403, "POST");
  table->Path("/v2/repository/models/m/unload", 403, "POST");
  table->Path("/v2/repository/models/../load", 400, "POST");
}

void AddHeads(Table* table) {
  for (const auto& [name, head] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense", "nonsense"},
           {"empty lines", "\r\nGET /v2 HTTP/1.1\r\nHost: x"},
           {"no version", "GET /v2\r\nHost: x"},
           {"HTTP/2.0", "GET /v2 HTTP/2.0\r\nHost: x"},
           {"HTTP/1.2", "GET /v2 HTTP/1.2\r\nHost: x"},
           {"HTTP/0.9", "GET /v2 HTTP/0.9\r\nHost: x"},
           {"http in lower case", "GET /v2 http/1.1\r\nHost: x"},
           {"two spaces", "GET  /v2 HTTP/1.1\r\nHost: x"},
           {"space behind", "GET /v2 HTTP/1.1 \r\nHost: x"},
           {"space before", " GET /v2 HTTP/1.1\r\nHost: x"},
           {"tab", "GET\t/v2 HTTP/1.1\r\nHost: x"},
           {"space in the target", "GET /v2 x HTTP/1.1\r\nHost: x"},
           {"absolute target", "GET http://x/v2 HTTP/1.1\r\nHost: x"},
           {"authority target", "CONNECT x:80 HTTP/1.1\r\nHost: x"},
           {"asterisk", "OPTIONS * HTTP/1.1\r\nHost: x"},
           {"fragment", "GET /v2#x HTTP/1.1\r\nHost: x"},
           {"target with bytes beyond ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: x"},
           {"target with a quote", "GET /\" HTTP/1.1\r\nHost: x"},
           {"target with a backslash", "GET /..\\x HTTP/1.1\r\nHost: x"},
           {"method with a colon", "GE:T /v2 HTTP/1.1\r\nHost: x"},
           {"no host", "GET /v2 HTTP/1.1"},
           {"two hosts", "GET /v2 HTTP/1.1\r\nHost: x\r\nHost: x"},
           {"host with a path", "GET /v2 HTTP/1.1\r\nHost: x/y"},
           {"host with a space", "GET /v2 HTTP/1.1\r\nHost: x y"},
           {"host with a user", "GET /v2 HTTP/1.1\r\nHost: u@x"},
           {"a long target", StrCat("GET /", Repeated("a", 3000), " HTTP/1.1\r\nHost: x")}}) {
    table->Head(name, head);
  }
  for (const auto& [name, field] : std::vector<std::pair<std::string, std::string>>{
           {"folded", "A: b\r\n c"},
           {"folded with a tab", "A: b\r\n\tc"},
           {"space before the colon", "A : b"},
           {"tab before the colon", "A\t: b"},
           {"no colon", "A"},
           {"no name", ": b"},
           {"space in the name", "A b: c"},
           {"name with bytes beyond ASCII", "\xc3\xa4: b"},
           {"name with a slash", "A/b: c"},
           {"name with a bracket", "A[b]: c"},
           {"a zero byte", std::string("A: b\0c", 6)},
           {"a line feed alone", "A: b\nB: c"},
           {"a carriage return alone", "A: b\rB: c"},
           {"an escape", "A: \x1b[0m"},
           {"delete", "A: \x7f"},
           {"upgrade", "Connection: upgrade\r\nUpgrade: h2c"},
           {"websocket", "Connection: Upgrade\r\nUpgrade: websocket"},
           {"two Authorizations", "Authorization: a\r\nAuthorization: b"},
           {"two Content-Types", "Content-Type: a\r\nContent-Type: b"}}) {
    table->Field(name, field);
  }
  table->Field("expectation", "Expect: a-miracle", 417);
  table->Field("gzip", "Content-Encoding: gzip", 415);
  table->Field("br", "Content-Encoding: br", 415);
  table->Field("large", "A: " + Repeated("b", 20000), 431);
  table->Field("many", Repeated("A: b\r\n", 100) + "A: b", 431);
  table->Field("large in all", Repeated("Aaaaaaaaaaaaaaaaaaaaaaaa: b\r\n", 3000) + "A: b", 431);
  table->Raw("head: endless", "GET /" + Repeated("a", 200000), 431);
}

// What one server takes for one request, and another for two.
void AddSmuggling(Table* table) {
  const auto post = [&](const std::string& name, const std::string& fields,
                        const std::string& body = "0\r\n\r\n", int status = 400) {
    table->Raw("smuggling: " + name,
               StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n", fields, "\r\n\r\n", body),
               status);
  };
  const std::string second = "0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n";
  post("CL.TE", "Content-Length: 5\r\nTransfer-Encoding: chunked", second);
  post("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 5", second);
  post("two equal lengths", "Content-Length: 5\r\nContent-Length: 5");
  post("two lengths", "Content-Length: 5\r\nContent-Length: 6");
  post("lengths in a list", "Content-Length: 5, 5");
  for (const char* length : {"-1", "+5", "5 5", "0x5", "5.0", "", "five", "18446744073709551616",
                             "5;", "\"5\"", "1e1"}) {
    post(StrCat("length ", length), StrCat("Content-Length: ", length));
  }
  post("length with a space before the colon", "Content-Length : 5");
  for (const char* coding : {"identity", "gzip", "chunked, identity", "identity, chunked",
                             "gzip, chunked", "chunked, chunked", "xchunked", "chunked;q=1",
                             "\"chunked\"", "", "chunked,", "chunked\x0b", "cow"}) {
    post(StrCat("coding ", coding), StrCat("Transfer-Encoding: ", coding));
  }
  post("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked");
  post("two codings, one strange", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x");
  post("coding with a space before the colon", "Transfer-Encoding : chunked");
  post("coding folded", "Transfer-Encoding:\r\n chunked");
  post("coding behind a line feed", "A: b\nTransfer-Encoding: chunked");
  table->Raw("smuggling: coding in HTTP/1.0",
             "POST /v2/models/m/infer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  table->Chunks("size no number", "x\r\n\r\n");
  table->Chunks("size negative", "-1\r\na\r\n");
  table->Chunks("size with 0x", "0x1\r\na\r\n0\r\n\r\n");
  table->Chunks("size beyond 64 bits", "ffffffffffffffffff\r\na\r\n");
  table->Chunks("no line behind a chunk", "1\r\nab\r\n0\r\n\r\n");
  table->Chunks("a line feed behind the size", "1\na\r\n0\r\n\r\n");
  table->Chunks("size empty", "\r\na\r\n0\r\n\r\n");
  table->Chunks("nothing in them", "0\r\n\r\n");
  table->Chunks("not JSON", "1\r\na\r\n0\r\n\r\n");
  table->Chunks("too large", "7fffffff\r\n", 413);
  table->Chunks("too large in parts", Repeated("10000\r\n" + Repeated("a", 65536) + "\r\n", 20),
                413);
  post("a body too large", "Content-Length: 1048577", "", 413);
  post("a body far too large", "Content-Length: 18446744073709551615", "", 413);
  table->Raw("a body where there is none",
             "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", 413);
  table->Raw("chunks where there are none",
             "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "1\r\na\r\n0\r\n\r\n",
             413);
}

}  // namespace

std::vector<BadRequest> BadRequests() {
  Table table;
  AddShapes(&table);
  AddData(&table);
  AddInputs(&table);
  AddBodies(&table);
  AddOutputs(&table);
  AddPaths(&table);
  AddHeads(&table);
  AddSmuggling(&table);
  return table.Take();
}

}  // namespace crema::test
