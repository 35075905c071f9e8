#include "server/protocol/infer_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "core/json.h"
#include "core/strings.h"
#include "server/protocol/check_request.h"
#include "server/protocol/classification.h"
#include "server/protocol/datatype.h"
#include "server/protocol/infer_sax.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr int64_t kBytes = sizeof(float);

// Returns the bytes after the JSON, in order.
class BinaryPart {
 public:
  explicit BinaryPart(std::string_view bytes) : left_(bytes) {}

  std::string_view Take(const std::string& input, int64_t size, int64_t elements) {
    if (size != elements * kBytes) {
      Refuse(Cause::kBadRequest, StrCat("binary_data_size of '", input, "' is ", size,
                                        ", but its shape takes ", elements * kBytes, " bytes"));
    }
    if (static_cast<uint64_t>(size) > left_.size()) {
      Refuse(Cause::kBadRequest, StrCat("the body ends before the binary data of '", input, "'"));
    }
    const std::string_view taken = left_.substr(0, static_cast<size_t>(size));
    left_.remove_prefix(static_cast<size_t>(size));
    return taken;
  }
  void RequireEnd() const {
    if (!left_.empty()) {
      Refuse(Cause::kBadRequest, StrCat(left_.size(), " bytes of binary data belong to no input"));
    }
  }

 private:
  std::string_view left_;
};

InputTensor ToInput(ParsedTensor&& parsed, const RequestLimits& limits, BinaryPart* binary) {
  if (!parsed.name) Refuse(Cause::kBadRequest, "an input has no 'name'");
  InputTensor input;
  input.name = std::move(*parsed.name);
  if (!parsed.datatype) {
    Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'datatype'"));
  }
  RequireFp32(input.name, *parsed.datatype);
  if (!parsed.shape) Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'shape'"));
  input.shape = CheckedShape(input.name, *parsed.shape, limits);
  const int64_t count = input.shape.count();
  if (parsed.parameters.binary_data_size) {
    if (parsed.data) {
      Refuse(Cause::kBadRequest,
             StrCat("input '", input.name, "' has both 'data' and 'binary_data_size'"));
    }
    input.raw = binary->Take(input.name, *parsed.parameters.binary_data_size, count);
    return input;
  }
  if (!parsed.data) Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'data'"));
  if (static_cast<int64_t>(parsed.data->size()) != count) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input.name, "' has ", parsed.data->size(), " elements, but its shape ",
                  ToString(input.shape), " takes ", count));
  }
  input.values = std::move(*parsed.data);
  return input;
}

RequestedOutput ToOutput(ParsedTensor&& parsed, bool binary_by_default) {
  if (!parsed.name) Refuse(Cause::kBadRequest, "an output has no 'name'");
  return {std::move(*parsed.name), parsed.parameters.binary_data.value_or(binary_by_default),
          parsed.parameters.classification.value_or(0)};
}

template <typename Tensor>
void RefuseDuplicates(const std::vector<Tensor>& tensors, std::string_view what) {
  std::set<std::string_view> names;
  for (const Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      Refuse(Cause::kBadRequest, StrCat(what, " '", tensor.name, "' appears twice"));
    }
  }
}

void AppendFloat(float value, const std::string& output, std::string* text) {
  if (!std::isfinite(value)) {
    Refuse(Cause::kBadRequest,
           StrCat("output '", output,
                  "' holds NaN or infinity, which JSON cannot say: ask for it as binary data"));
  }
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  CREMA_CHECK(error == std::errc());
  text->append(digits, end);
}

void AppendShape(const Shape& shape, std::string* json) {
  *json += '[';
  for (int axis = 0; axis < shape.axes(); ++axis) {
    if (axis > 0) *json += ',';
    AppendTo(json, shape[axis]);
  }
  *json += ']';
}

void AppendValues(const OutputTensor& output, std::string* json) {
  *json += R"(,"data":[)";
  for (size_t i = 0; i < output.values.size(); ++i) {
    if (i > 0) *json += ',';
    AppendFloat(output.values[i], output.name, json);
  }
  *json += ']';
}

// Serializes strings as the protocol does: each after its length in four bytes.
std::string Serialized(const std::vector<std::string>& strings) {
  std::string bytes;
  for (const std::string& text : strings) {
    const auto length = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += text;
  }
  return bytes;
}

void AppendClasses(const OutputTensor& output, const RequestedOutput& wish,
                   const std::vector<std::string>& labels, std::string* json, std::string* binary) {
  const Classification classes = BestClasses(output, wish.classes, labels);
  *json += R"(,"datatype":"BYTES","shape":)";
  AppendShape(classes.shape, json);
  if (wish.binary) {
    const std::string bytes = Serialized(classes.texts);
    *json += StrCat(R"(,"parameters":{"binary_data_size":)", bytes.size(), "}");
    *binary += bytes;
    return;
  }
  *json += R"(,"data":[)";
  for (size_t i = 0; i < classes.texts.size(); ++i) {
    if (i > 0) *json += ',';
    *json += JsonString(classes.texts[i]);
  }
  *json += ']';
}

void AppendOutput(const OutputTensor& output, const RequestedOutput& wish,
                  const std::vector<std::string>& labels, std::string* json, std::string* binary) {
  *json += StrCat(R"({"name":)", JsonString(output.name));
  if (wish.classes > 0) {
    AppendClasses(output, wish, labels, json, binary);
  } else {
    *json += R"(,"datatype":"FP32","shape":)";
    AppendShape(output.shape, json);
    if (wish.binary) {
      const size_t size = output.values.size() * sizeof(float);
      *json += StrCat(R"(,"parameters":{"binary_data_size":)", size, "}");
      binary->append(reinterpret_cast<const char*>(output.values.data()), size);
    } else {
      AppendValues(output, json);
    }
  }
  *json += '}';
}

}  // namespace

InferRequest ParseInferRequest(std::shared_ptr<const std::string> body,
                               std::optional<size_t> header_length, const RequestLimits& limits) {
  const std::string_view bytes = *body;
  if (header_length && *header_length > bytes.size()) {
    Refuse(Cause::kBadRequest, StrCat("Inference-Header-Content-Length is ", *header_length,
                                      ", but the body has ", bytes.size(), " bytes"));
  }
  const size_t json_length = header_length.value_or(bytes.size());
  ParsedInfer parsed = ParseInferJson(bytes.substr(0, json_length), limits);
  if (!parsed.inputs || parsed.inputs->empty()) Refuse(Cause::kBadRequest, "there are no 'inputs'");

  InferRequest request;
  request.id = std::move(parsed.id).value_or("");
  request.binary_outputs = parsed.parameters.binary_data_output.value_or(false);
  request.timeout_us = parsed.parameters.timeout;
  BinaryPart binary(bytes.substr(json_length));
  ElementBudget budget(limits);
  for (ParsedTensor& tensor : *parsed.inputs) {
    request.inputs.push_back(ToInput(std::move(tensor), limits, &binary));
    budget.Take(request.inputs.back().shape.count());
  }
  binary.RequireEnd();
  if (parsed.outputs) {
    for (ParsedTensor& tensor : *parsed.outputs) {
      request.outputs.push_back(ToOutput(std::move(tensor), request.binary_outputs));
    }
  }
  RefuseDuplicates(request.inputs, "input");
  RefuseDuplicates(request.outputs, "output");
  request.keep = std::move(body);
  return request;
}

InferBody WriteInferReply(const InferRequest& request, const InferReply& reply,
                          const std::vector<std::string>& labels) {
  std::string json = StrCat(R"({"model_name":)", JsonString(reply.model), R"(,"model_version":")",
                            reply.version, '"');
  if (!request.id.empty()) json += StrCat(R"(,"id":)", JsonString(request.id));
  json += R"(,"outputs":[)";
  std::string binary;
  bool any_binary = false;
  for (size_t i = 0; i < reply.outputs.size(); ++i) {
    // Requested outputs are sorted by name.
    const RequestedOutput wish =
        request.outputs.empty() ? RequestedOutput{reply.outputs[i].name, request.binary_outputs, 0}
                                : request.outputs[i];
    if (i > 0) json += ',';
    AppendOutput(reply.outputs[i], wish, labels, &json, &binary);
    any_binary |= wish.binary;
  }
  json += "]}";
  InferBody body;
  if (any_binary) body.header_length = json.size();
  body.bytes = std::move(json);
  body.bytes += binary;
  return body;
}

}  // namespace crema::server
