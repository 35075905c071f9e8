#include "server/protocol/infer_sax.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#define RAPIDJSON_HAS_STDSTRING 1
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

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
    return Value("a truth value");
  }
  // Takes numbers as text: the parser's own conversion is inexact, and undefined for some zeros.
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    const std::string_view number(text, length);
    if (Top() == Place::kData) return Element(number);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text, text + length, value);
    if (error == std::errc() && end == text + length) return Integer(value);
    return Value("a number that is no integer of 64 bits");
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

  bool Element(std::string_view number) {
    if (++elements_ > limits_.elements) {
      Refuse(Cause::kTooLarge, StrCat("more than ", limits_.elements, " elements"));
    }
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
    tensor().data->push_back(value);
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
  bool seen_root_ = false;
};

}  // namespace

ParsedInfer ParseInferJson(std::string_view json, const RequestLimits& limits) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  // The parser takes a zero byte for the end.
  if (json.find('\0') != std::string_view::npos) Bad("not JSON: it holds a zero byte");
  InferHandler handler(limits);
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(json.data(), json.size());
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (result.IsError()) {
    Bad(StrCat("not JSON at byte ", result.Offset(), ": ",
               rapidjson::GetParseError_En(result.Code())));
  }
  return handler.Take();
}

}  // namespace crema::server
