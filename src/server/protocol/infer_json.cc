#include "server/protocol/infer_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#define RAPIDJSON_HAS_STDSTRING 1
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include "core/json.h"
#include "core/strings.h"
#include "server/protocol/check_request.h"
#include "server/protocol/classification.h"
#include "server/protocol/datatype.h"
#include "server/protocol/json_reader.h"
#include "server/request_error.h"
#include "server/security/tokens.h"

namespace crema::server {
namespace {

struct ParsedParameters {
  std::optional<int64_t> binary_data_size;
  std::optional<bool> binary_data;
  std::optional<bool> binary_data_output;
  std::optional<int64_t> classification;
  std::optional<int64_t> timeout;
};

struct ParsedTensor {
  std::optional<std::string> name;
  std::optional<std::string> datatype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<float>> data;
  std::vector<std::string> texts;  // elements of data that are strings
  bool has_truth_values = false;   // in data, as 0 and 1
  // The first element of data that FP32 would make another integer: its place and text.
  std::optional<std::pair<size_t, std::string>> rounded;
  ParsedParameters parameters;
};

struct ParsedInfer {
  std::optional<std::string> id;
  std::optional<std::vector<ParsedTensor>> inputs;
  std::optional<std::vector<ParsedTensor>> outputs;
  ParsedParameters parameters;
};

enum class Place { kRoot, kTensors, kTensor, kShape, kData, kParameters, kIgnored };

[[noreturn]] void Bad(std::string message) { Refuse(Cause::kBadRequest, std::move(message)); }

// Handles the events of the parser. The stack holds one Place per open object or array.
class InferHandler {
 public:
  explicit InferHandler(const RequestLimits& limits) : limits_(limits) {}

  ParsedInfer Take() {
    if (!seen_root_) Bad("the request is not a JSON object");
    return std::move(result_);
  }

  bool Null() { return Value("null"); }
  bool Bool(bool value) {
    if (Top() == Place::kParameters) return BoolParameter(value);
    if (Top() != Place::kData) return Value("a truth value");
    tensor().has_truth_values = true;
    return Element(value ? "1" : "0");
  }
  // Takes numbers as text: the parser's own conversion is inexact, and undefined for some zeros.
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    const std::string_view number(text, length);
    if (Top() == Place::kData) return Element(number);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text, text + length, value);
    if (error == std::errc() && end == text + length) return Integer(value);
    return Value("a number that is not a 64-bit integer");
  }
  bool Int(int) { return false; }  // the parser does not call these five
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    return Text(std::string_view(text, length));
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    key_.assign(text, length);
    return true;
  }
  bool StartObject() {
    Push(PlaceOfObject());
    return true;
  }
  bool EndObject(rapidjson::SizeType) { return Pop(); }
  bool StartArray() {
    Push(PlaceOfArray());
    return true;
  }
  bool EndArray(rapidjson::SizeType) { return Pop(); }

 private:
  Place Top() const {
    if (stack_.empty()) Bad("the request is not a JSON object");
    return stack_.back();
  }
  void Push(Place place) {
    if (stack_.size() >= static_cast<size_t>(limits_.json_depth)) {
      Bad(StrCat("the JSON is nested deeper than ", limits_.json_depth));
    }
    stack_.push_back(place);
  }
  bool Pop() {
    stack_.pop_back();
    return true;
  }

  ParsedTensor& tensor() { return tensors_->back(); }
  std::string Of() const {
    return tensors_ != nullptr && !tensors_->empty() && tensors_->back().name
               ? StrCat(" of '", *tensors_->back().name, "'")
               : std::string();
  }

  Place PlaceOfObject() {
    if (stack_.empty()) {
      seen_root_ = true;
      return Place::kRoot;
    }
    switch (stack_.back()) {
      case Place::kRoot:
        if (key_ == "parameters") return OpenParameters(&result_.parameters);
        if (key_ == "inputs" || key_ == "outputs" || key_ == "id") WrongKind("an object");
        return Place::kIgnored;
      case Place::kTensors:
        return OpenTensor();
      case Place::kTensor:
        if (key_ == "parameters") return OpenParameters(&tensor().parameters);
        if (IsKeyOfTensor()) WrongKind("an object");
        return Place::kIgnored;
      case Place::kShape:
      case Place::kData:
        WrongKind("an object");
      case Place::kParameters:
        Bad(StrCat("parameter '", key_, "' is an object"));
      case Place::kIgnored:
        break;
    }
    return Place::kIgnored;
  }

  Place PlaceOfArray() {
    if (stack_.empty()) Bad("the request is not a JSON object");
    switch (stack_.back()) {
      case Place::kRoot:
        if (key_ == "inputs") return OpenTensors(&result_.inputs);
        if (key_ == "outputs") return OpenTensors(&result_.outputs);
        if (key_ == "id" || key_ == "parameters") WrongKind("an array");
        return Place::kIgnored;
      case Place::kTensors:
        Bad("a tensor is an array, not an object");
      case Place::kTensor:
        if (key_ == "shape") return Open(&tensor().shape, Place::kShape);
        if (key_ == "data") return Open(&tensor().data, Place::kData);
        if (IsKeyOfTensor()) WrongKind("an array");
        return Place::kIgnored;
      case Place::kShape:
        WrongKind("an array of arrays");
      case Place::kData:
        return Place::kData;  // nested rows: the order of elements is the same
      case Place::kParameters:
        Bad(StrCat("parameter '", key_, "' is an array"));
      case Place::kIgnored:
        break;
    }
    return Place::kIgnored;
  }

  bool IsKeyOfTensor() const {
    return key_ == "name" || key_ == "datatype" || key_ == "shape" || key_ == "data" ||
           key_ == "parameters";
  }

  template <typename T>
  Place Open(std::optional<std::vector<T>>* list, Place place) {
    if (list->has_value()) Bad(StrCat("'", key_, "'", Of(), " appears twice"));
    list->emplace();
    return place;
  }

  Place OpenTensors(std::optional<std::vector<ParsedTensor>>* tensors) {
    Open(tensors, Place::kTensors);
    tensors_ = &**tensors;
    return Place::kTensors;
  }

  Place OpenTensor() {
    if (tensors_->size() >= limits_.tensors) {
      Refuse(Cause::kTooLarge, StrCat("more than ", limits_.tensors, " tensors"));
    }
    tensors_->emplace_back();
    return Place::kTensor;
  }

  Place OpenParameters(ParsedParameters* parameters) {
    parameters_ = parameters;
    return Place::kParameters;
  }

  [[noreturn]] void WrongKind(std::string_view kind) const {
    Bad(StrCat("'", key_, "'", Of(), " is ", kind));
  }

  // A value that is unexpected or ignored at its place.
  bool Value(std::string_view kind) {
    switch (Top()) {
      case Place::kRoot:
        if (key_ == "id" || key_ == "inputs" || key_ == "outputs" || key_ == "parameters") {
          WrongKind(kind);
        }
        break;
      case Place::kTensors:
        Bad(StrCat("a tensor is ", kind, ", not an object"));
      case Place::kTensor:
        if (IsKeyOfTensor()) WrongKind(kind);
        break;
      case Place::kShape:
      case Place::kData:
        Bad(StrCat("an element of '", key_, "'", Of(), " is ", kind));
      case Place::kParameters:
        return OtherParameter(kind);
      case Place::kIgnored:
        break;
    }
    return true;
  }

  bool Integer(int64_t value) {
    switch (Top()) {
      case Place::kShape:
        return AddDim(value);
      case Place::kParameters:
        return IntegerParameter(value);
      default:
        return Value("a number");
    }
  }

  void CountElement() {
    if (++elements_ <= limits_.elements) return;
    Refuse(Cause::kTooLarge, StrCat("more than ", limits_.elements, " elements"));
  }

  bool Element(std::string_view number) {
    CountElement();
    std::vector<float>& data = *tensor().data;
    float value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc::result_out_of_range) {
      // Underflow becomes zero; rounding to infinity is an error.
      constexpr double kRoundsToInfinity = 0x1.ffffffp127;
      const double wide = std::strtod(std::string(number).c_str(), nullptr);
      if (std::abs(wide) >= kRoundsToInfinity)
        Bad(StrCat("an element of 'data'", Of(), " is beyond FP32"));
      value = static_cast<float>(wide);
    }
    const bool is_whole = value == std::trunc(value);
    const bool may_differ =
        std::abs(value) >= 0x1p24F || number.find_first_of(".eE") != std::string_view::npos;
    if (is_whole && may_differ && !tensor().rounded) {
      long double wide = 0;  // exact for 64 bits
      std::from_chars(number.data(), number.data() + number.size(), wide);
      constexpr size_t kMostText = 32;
      if (wide != value) tensor().rounded = {data.size(), std::string(number.substr(0, kMostText))};
    }
    data.push_back(value);
    return true;
  }

  bool AddDim(int64_t value) {
    if (value < 0) Bad(StrCat("a dimension of 'shape'", Of(), " is negative"));
    if (tensor().shape->size() >= limits_.axes) {
      Bad(StrCat("'shape'", Of(), " has more than ", limits_.axes, " axes"));
    }
    tensor().shape->push_back(value);
    return true;
  }

  bool Text(std::string_view text) {
    if (Top() == Place::kRoot && key_ == "id") return Set(&result_.id, text);
    if (Top() == Place::kTensor && key_ == "name") return Set(&tensor().name, text);
    if (Top() == Place::kTensor && key_ == "datatype") return Set(&tensor().datatype, text);
    if (Top() == Place::kData) {
      CheckImageCount(++images_, limits_);
      tensor().texts.emplace_back(text);
      return true;
    }
    return Value("a string");
  }

  bool Set(std::optional<std::string>* field, std::string_view text) {
    constexpr size_t kMostText = 256;
    if (field->has_value()) Bad(StrCat("'", key_, "' appears twice"));
    if (text.size() > kMostText) Bad(StrCat("'", key_, "' is longer than ", kMostText, " bytes"));
    *field = std::string(text);
    return true;
  }

  bool IntegerParameter(int64_t value) {
    const auto set = [&](std::optional<int64_t>* field) {
      if (field->has_value()) Bad(StrCat("parameter '", key_, "' appears twice"));
      if (value < 0) Bad(StrCat("parameter '", key_, "' is negative"));
      *field = value;
      return true;
    };
    if (key_ == "binary_data_size") return set(&parameters_->binary_data_size);
    if (key_ == "classification") return set(&parameters_->classification);
    if (key_ == "timeout") return set(&parameters_->timeout);
    if (key_ == "priority" && value == 0) return true;
    if (key_ == "sequence_id" && value == 0) return true;
    return OtherParameter("a number");
  }

  bool BoolParameter(bool value) {
    if (key_ == "binary_data") {
      parameters_->binary_data = value;
      return true;
    }
    if (key_ == "binary_data_output") {
      parameters_->binary_data_output = value;
      return true;
    }
    if (!value && (key_ == "sequence_start" || key_ == "sequence_end")) return true;
    return OtherParameter("a truth value");
  }

  // Refuses unsupported parameters that would change the meaning of the answer, and ignores others.
  bool OtherParameter(std::string_view kind) const {
    if (key_.starts_with("shared_memory")) Bad("shared memory is not supported");
    if (key_.starts_with("sequence_")) Bad("sequences are not supported");
    if (key_ == "priority") Bad("priorities are not supported");
    if (key_ == "binary_data_size" || key_ == "binary_data" || key_ == "binary_data_output" ||
        key_ == "classification" || key_ == "timeout") {
      Bad(StrCat("parameter '", key_, "' is ", kind));
    }
    return true;
  }

  const RequestLimits& limits_;
  ParsedInfer result_;
  std::vector<Place> stack_;
  std::string key_;
  std::vector<ParsedTensor>* tensors_ = nullptr;
  ParsedParameters* parameters_ = nullptr;
  int64_t elements_ = 0;
  int64_t images_ = 0;
  bool seen_root_ = false;
};

// Ignores unknown keys. Throws kBadRequest for invalid JSON, too deep nesting, duplicate keys or
// values of the wrong type, kTooLarge for more tensors or elements than the limits allow.
ParsedInfer ParseInferJson(std::string_view json, const RequestLimits& limits) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  // The parser takes a zero byte for the end.
  if (json.find('\0') != std::string_view::npos) Bad("not JSON: it holds a zero byte");
  InferHandler handler(limits);
  JsonReader reader;
  rapidjson::MemoryStream stream(json.data(), json.size());
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (result.IsError()) {
    Bad(StrCat("not JSON at byte ", result.Offset(), ": ",
               rapidjson::GetParseError_En(result.Code())));
  }
  return handler.Take();
}

// Returns the bytes after the JSON, in order.
class BinaryPart {
 public:
  explicit BinaryPart(std::string_view bytes) : left_(bytes) {}

  std::string_view Take(const std::string& input, InputType type, int64_t size, int64_t elements) {
    if (type != InputType::kBytes && size != elements * SizeOf(type)) {
      Refuse(Cause::kBadRequest,
             StrCat("binary_data_size of '", input, "' is ", size, ", but its shape takes ",
                    elements * SizeOf(type), " bytes"));
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

void RequireCount(const InputTensor& input, size_t elements) {
  if (static_cast<int64_t>(elements) == input.shape.count()) return;
  Refuse(Cause::kBadRequest,
         StrCat("input '", input.name, "' has ", elements, " elements, but its shape ",
                ToString(input.shape), " takes ", input.shape.count()));
}

// Each element is an image in Base64: JSON has no bytes.
std::vector<std::string> ImagesOf(const InputTensor& input, const ParsedTensor& parsed) {
  if (!parsed.data->empty()) {
    Bad(StrCat("an element of 'data' of '", input.name, "' is a number, but BYTES are strings"));
  }
  RequireCount(input, parsed.texts.size());
  std::vector<std::string> images;
  for (const std::string& text : parsed.texts) {
    std::optional<std::string> image = FromBase64(text);
    if (!image) {
      Bad(StrCat("an element of 'data' of '", input.name,
                 "' is not an image in Base64; binary data needs no Base64"));
    }
    images.push_back(std::move(*image));
  }
  return images;
}

void TakeBinary(InputType type, std::string_view bytes, InputTensor* input) {
  if (type == InputType::kFp32) {
    input->raw = bytes;
  } else if (type == InputType::kBytes) {
    input->images = SplitBytes(input->name, bytes, input->shape.count());
  } else {
    input->values = ToFloats(input->name, type, bytes);
  }
}

InputTensor ToInput(ParsedTensor&& parsed, const RequestLimits& limits, BinaryPart* binary) {
  if (!parsed.name) Refuse(Cause::kBadRequest, "an input has no 'name'");
  InputTensor input;
  input.name = std::move(*parsed.name);
  if (!parsed.datatype) {
    Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'datatype'"));
  }
  const InputType type = ParseInputType(input.name, *parsed.datatype);
  if (!parsed.shape) Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'shape'"));
  input.shape = CheckedShape(input.name, *parsed.shape, limits);
  const int64_t count = input.shape.count();
  if (type == InputType::kBytes) CheckImageCount(count, limits);
  if (parsed.parameters.binary_data_size) {
    if (parsed.data) {
      Refuse(Cause::kBadRequest,
             StrCat("input '", input.name, "' has both 'data' and 'binary_data_size'"));
    }
    TakeBinary(type, binary->Take(input.name, type, *parsed.parameters.binary_data_size, count),
               &input);
    return input;
  }
  if (!parsed.data) Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has no 'data'"));
  if (type == InputType::kBytes) {
    input.images = ImagesOf(input, parsed);
    return input;
  }
  if (!parsed.texts.empty()) {
    Bad(StrCat("an element of 'data' of '", input.name, "' is a string"));
  }
  if (parsed.has_truth_values && type != InputType::kBool) {
    Bad(StrCat("an element of 'data' of '", input.name, "' is a truth value"));
  }
  RequireCount(input, parsed.data->size());
  CheckNumbers(input.name, type, *parsed.data);
  if (parsed.rounded && IsInteger(type)) {
    RefuseInteger(input.name, parsed.rounded->first, parsed.rounded->second);
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
  if (!parsed.inputs || parsed.inputs->empty()) {
    Refuse(Cause::kBadRequest,
           "there are no 'inputs'; the body has the form {\"inputs\": [{\"name\": ..., \"shape\": "
           "[...], \"datatype\": \"FP32\", \"data\": [...]}]}");
  }

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
