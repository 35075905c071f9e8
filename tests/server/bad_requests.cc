// Bad paths, heads and framings; the table of all.
#include "server/bad_requests.h"

#include <string>
#include <utility>
#include <vector>

#include "server/bad_request_table.h"

namespace crema::test {
namespace {

void AddPaths(BadRequestTable* table) {
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

void AddHeads(BadRequestTable* table) {
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
           {"absolute target of another scheme", "GET ftp://x/v2 HTTP/1.1\r\nHost: x"},
           {"absolute target without a machine", "GET http:///v2 HTTP/1.1\r\nHost: x"},
           {"absolute target with a user", "GET http://u@x/v2 HTTP/1.1\r\nHost: x"},
           {"absolute target with one slash", "GET http:/v2 HTTP/1.1\r\nHost: x"},
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

// Bytes that one server parses as one request, and another as two.
void AddSmuggling(BadRequestTable* table) {
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
  const std::string byte = "1\r\na\r\n0\r\n";
  table->Chunks("a trailer", byte + "A: b\r\n\r\n");
  table->Chunks("a trailer that is huge", byte + "A: " + Repeated("b", 70000) + "\r\n\r\n");
  table->Chunks("a trailer without an end", byte + "A: " + Repeated("b", 200000));
  table->Chunks("a trailer with a length", byte + "Content-Length: 5\r\n\r\n");
  table->Chunks("a trailer that is folded", byte + "A: b\r\n c\r\n\r\n");
  table->Chunks("a line feed for an end", byte + "\n");
  table->Chunks("a line feed behind a chunk", "1\r\na\n0\r\n\r\n");
  table->Chunks("a long extension", "1;" + Repeated("x", 70000) + "\r\na\r\n0\r\n\r\n");
  table->Chunks("a line feed in an extension", "1;a\nb\r\na\r\n0\r\n\r\n");
  table->Chunks("size with a space", " 1\r\na\r\n0\r\n\r\n");
  table->Raw("chunks with a trailer where there are none",
             StrCat("GET /v2/health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "0\r\nX: ", Repeated("b", 70000), "\r\n\r\n"));
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
  BadRequestTable table;
  AddBadBodies(&table);
  AddPaths(&table);
  AddHeads(&table);
  AddSmuggling(&table);
  return table.Take();
}

}  // namespace crema::test
