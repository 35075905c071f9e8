// Bad bodies of requests for inference.
#include <string>
#include <utility>
#include <vector>

#include "server/bad_request_table.h"

namespace crema::test {
namespace {

const std::string& Good() {
  static const std::string body =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
  return body;
}

void AddShapes(BadRequestTable* table) {
  for (const char* dims : {"[]",       "[4]",
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
    table->Shape(dims);
  }
  for (const char* dims :
       {"[9223372036854775807,4]", "[4294967296,4294967296]", "[2147483648,4294967296,2]",
        "[9223372036854775807,9223372036854775807]", "[3037000500,3037000500]",
        "[65536,65536,65536,65536]", "[16777217,1]", "[4611686018427387904,4]",
        "[1000000000000,1000000000000,1000000]", "[16777216,2]", "[18446744073709551615,1]"}) {
    table->Shape(dims, std::string(dims).starts_with("[184") ? 400 : 413);
  }
}

void AddData(BadRequestTable* table) {
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

void AddInputs(BadRequestTable* table) {
  for (const char* type : {"FP16", "BF16", "BOOL", "BYTES", "fp32", "FP32 ", "float", "", "FP33",
                           "string", "TYPE_FP32"}) {
    table->Input(StrCat("datatype ", type),
                 StrCat(R"("name":"x","shape":[1,4],"datatype":")", type, R"(","data":[1,2,3,4])"));
  }
  for (const auto& [type, data] : std::vector<std::pair<std::string, std::string>>{
           {"UINT8", "[1,2,3,256]"},
           {"UINT8", "[1,2,3,-1]"},
           {"UINT8", "[1,2,3,1.5]"},
           {"INT32", "[1,2,3,4e9]"},
           {"INT8", "[1,2,3,128]"},
           {"UINT16", "[1,2,3,65536]"},
           {"UINT64", "[1,2,3,-1]"},
           {"BOOL", "[0,1,1,2]"},
           {"FP32", "[1,2,3,true]"},
           {"UINT8", "[1,2,3,false]"},
           {"INT64", "[1,2,3,1e20]"},
           {"INT32", R"([1,2,3,"4"])"},
           {"BYTES", R"(["QUJD","QUJD","QUJD"])"},
           {"BYTES", R"(["QUJD","QUJD","QUJD","QUJ"])"},
           {"BYTES", R"(["QUJD","QUJD","QUJD","=UJD"])"},
           {"BYTES", R"(["QUJD","QUJD","QUJD",4])"},
           {"BYTES", R"(["QUJD","QUJD","QUJD","QUJD"])"}}) {
    table->Input(StrCat(type, " ", data),
                 StrCat(R"("name":"x","shape":[1,4],"datatype":")", type, R"(","data":)", data));
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

void AddBodies(BadRequestTable* table) {
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

void AddOutputs(BadRequestTable* table) {
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
  const std::string bytes = R"({"inputs":[{"name":"x","shape":[4],"datatype":"BYTES",)"
                            R"("parameters":{"binary_data_size":16}}]})";
  const auto elements = [&](const std::string& name, const std::string& data) {
    table->Infer("BYTES: " + name, bytes + data, 400,
                 StrCat("Inference-Header-Content-Length: ", bytes.size(), "\r\n"));
  };
  elements("no images", std::string(16, '\0'));
  elements("too few", std::string("\x0c\0\0\0", 4) + std::string(12, 'x'));
  elements("too long", std::string("\x0d\0\0\0", 4) + std::string(12, 'x'));
  elements("huge", std::string(16, '\xff'));
  binary("length twice", whole + "\r\nInference-Header-Content-Length: " + whole, 16);
}

}  // namespace

void AddBadBodies(BadRequestTable* table) {
  AddShapes(table);
  AddData(table);
  AddInputs(table);
  AddBodies(table);
  AddOutputs(table);
}

}  // namespace crema::test
