#include "onnx/model_file.h"

#include <google/protobuf/message.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/half.h"
#include "core/printable.h"
#include "core/shape.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/wire.h"

namespace crema {
namespace {

using onnx::TensorProto;

// Elements of a dense tensor that a sparse one stands for.
constexpr int64_t kMostSparseElements = int64_t{1} << 24;

// Escapes control characters in all names of a message, so that errors, logs and the text of nets
// can show them.
void MakePrintable(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    if (!text && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (!text) {
        MakePrintable(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i)
                                           : reflection->MutableMessage(message, field));
        continue;
      }
      std::string scratch;
      const std::string& given =
          field->is_repeated()
              ? reflection->GetRepeatedStringReference(*message, field, i, &scratch)
              : reflection->GetStringReference(*message, field, &scratch);
      if (given.size() > kMostOnnxNameBytes) continue;  // documentation, or refused as a name
      std::string shown = Printable(given);
      if (shown == given) continue;
      if (field->is_repeated()) {
        reflection->SetRepeatedString(message, field, i, std::move(shown));
      } else {
        reflection->SetString(message, field, std::move(shown));
      }
    }
  }
}

// One tensor with the place where it is.
class Reader {
 public:
  Reader(const TensorProto& tensor, const std::string& model_path)
      : tensor_(tensor), path_(model_path) {}

  OnnxTensor Read() const {
    if (tensor_.has_segment()) Refuse(ErrorCode::kUnsupported, "is a segment of a larger tensor");
    count_ = CountOf();
    switch (tensor_.data_type()) {
      case TensorProto::FLOAT:
        return Floats<float>(tensor_.float_data(), [](float v) { return v; });
      case TensorProto::DOUBLE:
        return Floats<double>(tensor_.double_data(),
                              [](double v) { return static_cast<float>(v); });
      case TensorProto::FLOAT16:
        return Floats<uint16_t>(tensor_.int32_data(), HalfToFloat);
      case TensorProto::BFLOAT16:
        return Floats<uint16_t>(tensor_.int32_data(),
                                [](uint16_t bits) { return float{std::bit_cast<BFloat16>(bits)}; });
      case TensorProto::INT64:
        return Ints<int64_t>(tensor_.int64_data());
      case TensorProto::INT32:
        return Ints<int32_t>(tensor_.int32_data());
      case TensorProto::INT16:
        return Ints<int16_t>(tensor_.int32_data());
      case TensorProto::INT8:
        return Ints<int8_t>(tensor_.int32_data());
      case TensorProto::UINT8:
        return Ints<uint8_t>(tensor_.int32_data());
      case TensorProto::UINT16:
        return Ints<uint16_t>(tensor_.int32_data());
      case TensorProto::UINT32:
        return Ints<uint32_t>(tensor_.uint64_data());
      case TensorProto::UINT64:
        return Ints<uint64_t>(tensor_.uint64_data());
      case TensorProto::BOOL:
        return Ints<uint8_t>(tensor_.int32_data());
      default:
        Refuse(ErrorCode::kUnsupported,
               StrCat("has elements of ", OnnxTypeName(tensor_.data_type()),
                      ", which Crema does not read",
                      IsNumberType(tensor_.data_type()) ? "; export the model with float32 weights"
                                                        : ""));
    }
  }

 private:
  [[noreturn]] void Refuse(ErrorCode code, const std::string& message) const {
    Fail(code, StrCat("tensor '", tensor_.name(), "' ", message), {.file = path_});
  }

  int64_t CountOf() const {
    if (tensor_.dims_size() > kMostOnnxAxes) {
      Refuse(ErrorCode::kDataLoss,
             StrCat("has ", tensor_.dims_size(), " axes; the most is ", kMostOnnxAxes));
    }
    const std::vector<int64_t> dims(tensor_.dims().begin(), tensor_.dims().end());
    try {
      return Shape(dims).count();
    } catch (const Error& error) {
      Refuse(ErrorCode::kDataLoss, StrCat("has an invalid shape: ", error.problems()[0].message));
    }
  }

  // Returns the bytes of the values; none: they are in the typed field.
  std::optional<std::string> Bytes(size_t element) const {
    if (tensor_.data_location() == TensorProto::EXTERNAL) return External(element);
    if (!tensor_.has_raw_data()) return std::nullopt;
    CheckBytes(tensor_.raw_data().size(), element, "in the file");
    return tensor_.raw_data();
  }

  void CheckBytes(uint64_t bytes, size_t element, const char* where) const {
    const uint64_t wanted = static_cast<uint64_t>(count_) * element;
    if (bytes == wanted) return;
    Refuse(ErrorCode::kDataLoss, StrCat("needs ", wanted, " bytes, but there are ", bytes, " ",
                                        where, "; the file is damaged"));
  }

  uint64_t Number(const std::string& key, const std::string& text) const {
    if (text.empty() || text.size() > 18 ||
        text.find_first_not_of("0123456789") != std::string::npos) {
      Refuse(ErrorCode::kDataLoss, StrCat("has external data with ", key, " '", text, "'"));
    }
    return std::stoull(text);
  }

  std::string External(size_t element) const {
    std::string location;
    uint64_t offset = 0;
    std::optional<uint64_t> length;
    for (const auto& entry : tensor_.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = Number("offset", entry.value());
      if (entry.key() == "length") length = Number("length", entry.value());
    }
    const uint64_t wanted = static_cast<uint64_t>(count_) * element;
    if (length) CheckBytes(*length, element, "of external data");
    try {
      const RandomFile file(ConfinedPath(location));
      if (offset > file.size() || file.size() - offset < wanted) {
        Refuse(ErrorCode::kDataLoss, StrCat("needs ", wanted, " bytes at ", offset, " of '",
                                            location, "', which has ", file.size()));
      }
      return file.Read(offset, wanted);
    } catch (const Error& error) {
      if (error.problems()[0].where.file == path_) throw;
      Refuse(error.code(), StrCat("has its values in another file: ", error.what()));
    }
  }

  std::string ConfinedPath(const std::string& location) const {
    namespace fs = std::filesystem;
    const auto refuse = [&](const char* why) {
      Refuse(ErrorCode::kInvalidArgument,
             StrCat("has its values in '", location, "', which ", why,
                    "; external data must lie in the folder of the model"));
    };
    const fs::path relative(location);
    if (location.empty() || location.size() > kMostOnnxNameBytes ||
        location.find('\0') != std::string::npos) {
      refuse("is no file name");
    }
    if (relative.is_absolute()) refuse("is an absolute path");
    for (const fs::path& part : relative) {
      if (part == "..") refuse("leaves the folder");
    }
    std::error_code error;
    const fs::path folder = fs::canonical(fs::absolute(path_).parent_path(), error);
    const fs::path target = error ? fs::path() : fs::weakly_canonical(folder / relative, error);
    if (error) refuse(error.message().c_str());
    const fs::path inside = target.lexically_relative(folder);
    if (inside.empty() || *inside.begin() == "..") refuse("is a link out of the folder");
    return target.string();
  }

  template <typename Field>
  void CheckField(const Field& field) const {
    if (field.size() == count_) return;
    Refuse(ErrorCode::kDataLoss, StrCat("needs ", count_, " values, but there are ", field.size(),
                                        "; the file is damaged"));
  }

  template <typename T, typename Field, typename Convert>
  OnnxTensor Floats(const Field& field, Convert convert) const {
    const auto bytes = Bytes(sizeof(T));
    if (!bytes) CheckField(field);
    std::vector<float> values(static_cast<size_t>(count_));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = convert(bytes ? At<T>(*bytes, i) : static_cast<T>(field[static_cast<int>(i)]));
    }
    return MakeFloats(Dims(), std::move(values), tensor_.data_type());
  }

  template <typename T, typename Field>
  OnnxTensor Ints(const Field& field) const {
    const auto bytes = Bytes(sizeof(T));
    if (!bytes) CheckField(field);
    std::vector<int64_t> values(static_cast<size_t>(count_));
    const bool is_bool = tensor_.data_type() == TensorProto::BOOL;
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = bytes ? At<T>(*bytes, i) : static_cast<T>(field[static_cast<int>(i)]);
      values[i] = is_bool ? value != 0 : static_cast<int64_t>(value);
    }
    return MakeInts(Dims(), std::move(values), tensor_.data_type());
  }

  template <typename T>
  static T At(const std::string& bytes, size_t index) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  std::vector<int64_t> Dims() const { return {tensor_.dims().begin(), tensor_.dims().end()}; }

  const TensorProto& tensor_;
  const std::string& path_;
  mutable int64_t count_ = 0;
};

// Walks over all graphs of a model and checks the limits.
class LimitCheck {
 public:
  explicit LimitCheck(const std::string& path) : path_(path) {}

  void Graph(const onnx::GraphProto& graph, int depth) {
    if (depth > kMostOnnxDepth) Refuse(StrCat("has graphs nested deeper than ", kMostOnnxDepth));
    Nodes(graph.node(), depth);
    for (const auto& tensor : graph.initializer()) Name(tensor.name());
    for (const auto& input : graph.input()) Name(input.name());
    for (const auto& output : graph.output()) Name(output.name());
  }

  template <typename Repeated>
  void Nodes(const Repeated& nodes, int depth) {
    nodes_ += nodes.size();
    if (nodes_ > kMostOnnxNodes) Refuse(StrCat("has more than ", kMostOnnxNodes, " nodes"));
    for (const auto& node : nodes) {
      Name(node.name());
      Name(node.op_type());
      for (const auto& name : node.input()) Name(name);
      for (const auto& name : node.output()) Name(name);
      for (const auto& attribute : node.attribute()) {
        Name(attribute.name());
        if (attribute.has_g()) Graph(attribute.g(), depth + 1);
        for (const auto& graph : attribute.graphs()) Graph(graph, depth + 1);
      }
    }
  }

 private:
  [[noreturn]] void Refuse(const std::string& message) const {
    Fail(ErrorCode::kDataLoss, message, {.file = path_});
  }
  void Name(const std::string& name) const {
    if (name.size() > kMostOnnxNameBytes) {
      Refuse(StrCat("has a name of ", name.size(), " bytes; the most is ", kMostOnnxNameBytes));
    }
  }

  const std::string& path_;
  int64_t nodes_ = 0;
};

void CheckOpset(const onnx::ModelProto& model, const std::string& path) {
  std::optional<int64_t> first;
  for (const auto& opset : model.opset_import()) {
    if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
    const int64_t version = opset.version();
    if (version < kOldestOpset || version > kNewestOpset) {
      Fail(ErrorCode::kUnsupported,
           StrCat("is of opset ", version, "; this version reads ", kOldestOpset, " to ",
                  kNewestOpset, ": export the model again with opset 17"),
           {.file = path});
    }
    if (first.value_or(version) != version) {
      Fail(ErrorCode::kDataLoss,
           StrCat("is of two opsets, ", *first, " and ", version, "; the file is damaged"),
           {.file = path});
    }
    first = version;
  }
}

}  // namespace

OnnxTensor MakeFloats(std::vector<int64_t> dims, std::vector<float> values, int type) {
  return {type, std::move(dims), std::make_shared<const std::vector<float>>(std::move(values)), {}};
}

OnnxTensor MakeInts(std::vector<int64_t> dims, std::vector<int64_t> values, int type) {
  return {
      type, std::move(dims), {}, std::make_shared<const std::vector<int64_t>>(std::move(values))};
}

bool IsFloatType(int type) {
  switch (type) {
    case TensorProto::FLOAT:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::DOUBLE:
    case TensorProto::FLOAT8E4M3FN:
    case TensorProto::FLOAT8E4M3FNUZ:
    case TensorProto::FLOAT8E5M2:
    case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT4E2M1:
    case TensorProto::FLOAT8E8M0:
      return true;
    default:
      return false;
  }
}

bool IsNumberType(int type) {
  return type > TensorProto::UNDEFINED && type <= TensorProto::INT2 &&
         type != TensorProto::STRING && type != TensorProto::COMPLEX64 &&
         type != TensorProto::COMPLEX128;
}

std::string OnnxTypeName(int type) {
  static constexpr const char* kNames[] = {
      "undefined",      "float32",  "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "float64",  "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  if (type >= 0 && type < static_cast<int>(std::size(kNames))) return kNames[type];
  return StrCat("type ", type);
}

onnx::ModelProto ParseOnnxModel(const std::string& bytes, const std::string& path) {
  onnx::ModelProto model;
  CheckIsBinary(std::string_view(bytes).substr(0, 4096), path, "an ONNX model");
  if (!ParseBinary(bytes, &model)) {
    Fail(ErrorCode::kDataLoss, "is no ONNX model, or is damaged or truncated", {.file = path});
  }
  if (!model.has_graph() || model.opset_import_size() == 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("is no ONNX model, or is damaged: it has no ",
                model.has_graph() ? "opset_import" : "graph"),
         {.file = path});
  }
  CheckOpset(model, path);
  MakePrintable(&model);
  LimitCheck check(path);
  check.Graph(model.graph(), 0);
  for (const auto& function : model.functions()) check.Nodes(function.node(), 0);
  return model;
}

onnx::ModelProto ReadOnnxModel(const std::string& path) {
  const RandomFile refuses_pipes(path);
  return ParseOnnxModel(ReadFile(path), path);
}

OnnxTensor ReadOnnxTensor(const onnx::TensorProto& tensor, const std::string& model_path) {
  return Reader(tensor, model_path).Read();
}

OnnxTensor ReadOnnxSparse(const onnx::SparseTensorProto& sparse, const std::string& model_path) {
  const OnnxTensor values = ReadOnnxTensor(sparse.values(), model_path);
  const OnnxTensor indices = ReadOnnxTensor(sparse.indices(), model_path);
  const std::string name = sparse.values().name();
  const auto refuse = [&](const std::string& message) {
    Fail(ErrorCode::kDataLoss, StrCat("sparse tensor '", name, "' ", message),
         {.file = model_path});
  };
  const std::vector<int64_t> dims(sparse.dims().begin(), sparse.dims().end());
  if (dims.size() > kMostOnnxAxes) refuse("has too many axes");
  const Shape shape(dims);
  if (shape.count() > kMostSparseElements) refuse(StrCat("stands for ", shape.count(), " values"));
  const int64_t stored = values.count();
  const bool linear = indices.dims.size() == 1;
  if (indices.IsFloat() || indices.count() != (linear ? stored : stored * shape.axes())) {
    refuse("has indices that do not fit its values");
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < stored; ++i) {
    int64_t place = linear ? (*indices.ints)[static_cast<size_t>(i)] : 0;
    for (int a = 0; !linear && a < shape.axes(); ++a) {
      const int64_t index = (*indices.ints)[static_cast<size_t>(i * shape.axes() + a)];
      if (index < 0 || index >= shape[a]) refuse("has an index outside of its shape");
      place = place * shape[a] + index;
    }
    if (place < 0 || place >= shape.count()) refuse("has an index outside of its shape");
    places.push_back(place);
  }
  const auto spread = [&]<typename T>(const std::vector<T>& from) {
    std::vector<T> dense(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < places.size(); ++i) dense[static_cast<size_t>(places[i])] = from[i];
    return dense;
  };
  return values.IsFloat() ? MakeFloats(dims, spread(*values.floats), values.type)
                          : MakeInts(dims, spread(*values.ints), values.type);
}

}  // namespace crema
