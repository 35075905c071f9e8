// Writes the file of an export, with its weights inside or beside it.
#include <filesystem>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "onnx/export.h"

namespace crema {
namespace {

constexpr int64_t kLeastExternal = 1024;  // bytes; smaller constants stay inside
constexpr int64_t kAlignment = 4096;      // so that readers can map the file
// Messages have less than 2 GiB; this is left for nodes and names.
constexpr int64_t kMostInside = (int64_t{1} << 31) - (int64_t{1} << 26);

std::string_view BytesOf(const OnnxConstant& constant) {
  if (!constant.bytes.empty() || constant.weight.empty()) return constant.bytes;
  return {static_cast<const char*>(constant.weight.raw()), constant.weight.bytes()};
}

int64_t SizeOf(const OnnxConstant& constant) {
  return static_cast<int64_t>(BytesOf(constant).size());
}

void SetExternal(const std::string& location, int64_t offset, int64_t length,
                 onnx::TensorProto* tensor) {
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                   {"offset", StrCat(offset)},
                                   {"length", StrCat(length)}}) {
    onnx::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

// Adds the constants; large ones refer to `location`, if that is not empty.
std::string Serialize(const OnnxExport& exported, const std::string& location) {
  onnx::ModelProto model = exported.model;
  int64_t end = 0;
  for (const OnnxConstant& constant : exported.constants) {
    onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(constant.name);
    tensor->set_data_type(constant.type);
    tensor->mutable_dims()->Add(constant.dims.begin(), constant.dims.end());
    if (location.empty() || SizeOf(constant) < kLeastExternal) {
      tensor->set_raw_data(std::string(BytesOf(constant)));
      continue;
    }
    SetExternal(location, end, SizeOf(constant), tensor);
    end += (SizeOf(constant) + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::string bytes;
  CREMA_CHECK(model.SerializeToString(&bytes));
  return bytes;
}

void WriteData(const OnnxExport& exported, AtomicFile* file) {
  for (const OnnxConstant& constant : exported.constants) {
    const int64_t size = SizeOf(constant);
    if (size < kLeastExternal) continue;
    file->Write(BytesOf(constant));
    file->Write(std::string(static_cast<size_t>((kAlignment - size % kAlignment) % kAlignment), 0));
  }
}

std::string NameOf(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

void WriteOnnx(const OnnxExport& exported, const std::string& path, bool external_data,
               const std::function<void(const std::string& path)>& check) {
  RemoveAbandoned(path);
  RemoveAbandoned(path + ".data");
  int64_t total = 0;
  for (const OnnxConstant& constant : exported.constants) total += SizeOf(constant);
  if (!external_data && total <= kMostInside) {
    AtomicFile file(path, static_cast<uint64_t>(total));
    file.Write(Serialize(exported, ""));
    check(file.temporary());
    file.Commit();
    return;
  }
  std::error_code error;
  if (std::filesystem::exists(path + ".data", error) && !std::filesystem::exists(path, error)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("is there, but not ", path,
                ", whose weights it would be; remove it, or export to "
                "another name"),
         {.file = path + ".data"});
  }
  AtomicFile data(path + ".data", static_cast<uint64_t>(total));
  WriteData(exported, &data);
  {
    // The file to check names the temporary file with the weights.
    AtomicFile trial(path);
    trial.Write(Serialize(exported, NameOf(data.temporary())));
    check(trial.temporary());
  }
  AtomicFile file(path);
  file.Write(Serialize(exported, NameOf(path + ".data")));
  data.Commit();
  file.Commit();
}

}  // namespace crema
