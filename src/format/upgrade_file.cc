#include "format/upgrade_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "core/strings.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "format/sniff.h"
#include "format/stock_caffe.h"
#include "format/upgrade.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

// Counts comments: from `#` to the end of a line, outside of strings.
int CountComments(const std::string& text) {
  int count = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') quote = 0;
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      ++count;
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    }
  }
  return count;
}

// Returns true for a solver, unless the text parses better as a net. A text that is neither is left
// to the parser of nets.
bool LooksLikeSolver(const std::string& text) {
  NetParameter net;
  SolverParameter solver;
  std::vector<Problem> as_net;
  std::vector<Problem> as_solver;
  ParseText(text, "", &net, nullptr, &as_net);
  ParseText(text, "", &solver, nullptr, &as_solver);
  return as_solver.size() < as_net.size();
}

template <typename Message>
void Finish(const std::string& text, const Message& upgraded, UpgradedFile* file) {
  Message before;
  std::vector<Problem> ignored;
  ParseText(text, "", &before, nullptr, &ignored);
  file->changed = before.SerializePartialAsString() != upgraded.SerializePartialAsString();
  file->text = file->changed ? PrintText(upgraded) : text;
  file->lost_comments = file->changed ? CountComments(text) : 0;
}

void UpgradeInside(const std::string& path, NetParameter* net, UpgradedFile* file) {
  SourceMap source = file->source.Below(path);
  UpgradeNet(net, &source, &file->warnings);
  file->source.SetBelow(path, source);
}

void ReadSolverText(const std::string& text, const std::string& path, UpgradedFile* file) {
  SolverFile parsed = ParseSolver(text, path);
  file->kind = UpgradedFile::Kind::kSolverText;
  file->source = std::move(parsed.source);
  file->warnings = std::move(parsed.warnings);
  SolverParameter& solver = file->solver;
  solver = std::move(parsed.solver);
  if (solver.has_net_param()) UpgradeInside("net_param", solver.mutable_net_param(), file);
  if (solver.has_train_net_param()) {
    UpgradeInside("train_net_param", solver.mutable_train_net_param(), file);
  }
  for (int i = 0; i < solver.test_net_param_size(); ++i) {
    UpgradeInside(StrCat("test_net_param[", i, "]"), solver.mutable_test_net_param(i), file);
  }
  Finish(text, solver, file);
}

void ReadNetText(const std::string& text, const std::string& path, UpgradedFile* file) {
  NetFile parsed = ParseNet(text, path);
  file->kind = UpgradedFile::Kind::kNetText;
  file->net = std::move(parsed.net);
  file->source = std::move(parsed.source);
  file->warnings = std::move(parsed.warnings);
  Finish(text, file->net, file);
}

// Converts NVCaffe's bytes to numbers, which every Caffe reads.
void UnpackRaw(BlobProto* blob) {
  if (!blob->has_raw_data() && !blob->has_raw_diff()) {
    blob->clear_raw_data_type();
    blob->clear_raw_diff_type();
    return;
  }
  const bool has_diff = DiffCount(*blob) > 0;
  const DType dtype = blob->raw_data_type() == DOUBLE ? DType::kF64 : DType::kF32;
  Tensor data(ShapeOf(*blob), dtype);
  Tensor diff(has_diff ? ShapeOf(*blob) : Shape({0}), dtype);
  CopyTo(*blob, data.view());
  if (has_diff) CopyDiffTo(*blob, diff.view());
  CopyFrom(std::as_const(data).view(), blob);
  CopyDiffFrom(std::as_const(diff).view(), blob);
}

void ReadBinary(const std::string& path, UpgradedFile* file) {
  file->kind = UpgradedFile::Kind::kNetBinary;
  file->net = ReadNetBinary(path);
  file->source.file = path;
  file->changed = true;  // assumed; finding out would need a second copy in memory
  for (LayerParameter& layer : *file->net.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) UnpackRaw(&blob);
  }
}

}  // namespace

UpgradedFile ReadUpgraded(const std::string& path) {
  UpgradedFile file;
  const Content content = Sniff(ReadFileStart(path, size_t{1} << 16));
  if (content == Content::kHdf5) {
    Fail(ErrorCode::kUnsupported,
         "is an HDF5 file: it holds names and values only, and there is nothing to upgrade",
         {.file = path});
  }
  if (content == Content::kBinary) {
    ReadBinary(path, &file);
    return file;
  }
  const std::string text = ReadFile(path);
  if (content == Content::kText && LooksLikeSolver(text)) {
    ReadSolverText(text, path, &file);
  } else {
    ReadNetText(text, path, &file);
  }
  return file;
}

std::vector<Problem> FindNotStock(const UpgradedFile& file) {
  if (file.kind == UpgradedFile::Kind::kSolverText) return FindNotStock(file.solver, file.source);
  return FindNotStock(file.net, file.source);
}

void WriteUpgraded(const UpgradedFile& file, const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const std::string target = error ? path : real.string();
  const fs::file_status before = fs::status(target, error);
  if (file.kind == UpgradedFile::Kind::kNetBinary) {
    WriteCaffemodel(file.net, target);
  } else {
    WriteFileAtomically(target, file.text);
  }
  if (!error && fs::is_regular_file(before)) fs::permissions(target, before.permissions(), error);
}

}  // namespace crema
