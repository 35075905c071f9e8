#include "format/caffemodel.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/file.h"
#include "format/net_stream.h"
#include "format/seal.h"
#include "format/sniff.h"
#include "format/upgrade.h"
#include "format/wire.h"

namespace crema {
namespace {

constexpr const char* kExpected = "a weights file (caffemodel)";

[[noreturn]] void FailFile(const std::string& path, std::string message) {
  Fail(ErrorCode::kDataLoss, std::move(message), {.file = path});
}

// Does not block on a pipe.
std::string ReadWhole(const std::string& path) {
  const RandomFile file(path);
  if (file.size() > kMaxFileBytes)
    FailFile(path, "is larger than 2 GiB, which only weights may be");
  return file.Read(0, static_cast<size_t>(file.size()));
}

// Checks that every blob has as many values as its shape.
void CheckBlobs(const NetParameter& net, const std::string& path) {
  for (const LayerParameter& layer : net.layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      try {
        CheckBlob(layer.blobs(i));
      } catch (const Error& error) {
        Problem problem = error.problems().front();
        problem.where.file = path;
        problem.where.layer = layer.name();
        problem.message = StrCat("is damaged: blob ", i, ": ", problem.message);
        throw Error(std::move(problem));
      }
    }
  }
}

bool HasBlobs(const NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(),
                     [](const LayerParameter& layer) { return layer.blobs_size() > 0; });
}

// Throws for our other binary files, many of which would parse as a net.
void FailIfOtherMessage(std::string_view body, const std::string& path) {
  SolverState state;
  if (ParseBinary(body, &state) && state.has_learned_net() && state.has_iter()) {
    FailFile(path,
             StrCat("is a solver state, not ", kExpected, ": train takes it with --resume; its ",
                    "weights are in '", state.learned_net(), "'"));
  }
  BlobProto blob;
  if (ParseBinary(body, &blob) && DataCount(blob) > 0 && DataCount(blob) == ShapeOf(blob).count()) {
    FailFile(path, StrCat("is a single array (a mean file?), not ", kExpected));
  }
}

uint32_t CrcOf(const RandomFile& file, const FileRange& range) {
  constexpr uint64_t kChunk = uint64_t{1} << 20;
  uint32_t crc = Crc32("");
  for (uint64_t at = 0; at < range.size; at += kChunk) {
    crc = Crc32(file.Read(range.begin + at, std::min(kChunk, range.size - at)), crc);
  }
  return crc;
}

FileRange Unseal(const RandomFile& file) {
  const uint64_t end_size = std::min<uint64_t>(file.size(), 2 * kSealBytes);
  return CheckSeals(
      file.Read(0, kSealBytes), file.Read(file.size() - end_size, end_size), file.size(),
      [&](const FileRange& range) { return CrcOf(file, range); }, file.path());
}

}  // namespace

NetParameter ReadCaffemodel(const std::string& path) {
  const bool is_hdf5 = Sniff(ReadFileStart(path, kSniffBytes)) == Content::kHdf5;
  NetParameter net = is_hdf5 ? ReadHdf5Caffemodel(path) : ReadNetBinary(path);
  if (!HasBlobs(net)) {
    FailFile(path,
             "holds no weights: none of its layers has parameter blobs; give a file that "
             "training has written");
  }
  return net;
}

NetParameter ReadNetBinary(const std::string& path) {
  constexpr size_t kLooked = size_t{1} << 20;
  const RandomFile file(path);
  const FileRange body = Unseal(file);
  if (body.size == file.size()) CheckIsBinary(file.Read(0, kLooked), path, kExpected);
  StreamedNet streamed = StreamNet(file, body);
  NetParameter& net = streamed.net;
  const bool has_layers = net.layer_size() + net.layers_size() > 0;
  if (!has_layers && body.size <= kMaxFileBytes) {
    FailIfOtherMessage(file.Read(body.begin, static_cast<size_t>(body.size)), path);
  }
  if (!streamed.damage.empty()) FailFile(path, streamed.damage + "; take another copy of the file");
  SourceMap source;
  source.file = path;
  std::vector<Problem> warnings;  // about fields that weights do not use
  UpgradeNet(&net, &source, &warnings);
  CheckBlobs(net, path);
  return std::move(streamed.net);
}

BlobProto ReadBlobProtoFile(const std::string& path) {
  constexpr const char* kArray = "a single array in binary (a mean file)";
  const std::string bytes = ReadWhole(path);
  const std::string_view body = Unseal(bytes, path);
  CheckIsBinary(bytes, path, kArray);
  BlobProto blob;
  if (!ParseBinary(body, &blob)) {
    FailFile(path, StrCat("is damaged or truncated, or not ", kArray));
  }
  if (DataCount(blob) == 0) {
    NetParameter net;
    const bool is_net = ParseBinary(body, &net) && net.layer_size() + net.layers_size() > 0;
    FailFile(path, is_net ? StrCat("is a weights file, not ", kArray)
                          : StrCat("holds no values; expected ", kArray));
  }
  try {
    CheckBlob(blob);
  } catch (const Error& error) {
    FailFile(path, "is damaged: " + error.problems().front().message);
  }
  return blob;
}

void CheckHdf5LayerNames(const NetParameter& net, const std::string& path) {
  constexpr const char* kRemedy =
      "; rename the layer, or write a caffemodel (snapshot_format: BINARYPROTO)";
  std::set<std::string> seen;
  for (const LayerParameter& layer : net.layer()) {
    std::string problem;
    if (layer.name().empty() || layer.name() == ".") problem = "a layer without a name";
    if (layer.name().find('/') != std::string::npos) problem = "a layer name with '/'";
    if (!seen.insert(layer.name()).second) problem = "two layers of one name";
    if (problem.empty()) continue;
    Fail(ErrorCode::kInvalidArgument, "HDF5 cannot hold " + problem + kRemedy,
         {.file = path, .layer = layer.name()});
  }
}

void WriteCaffemodel(const NetParameter& net, const std::string& path) { WriteSealed(net, path); }

uint32_t FileCrc32(const std::string& path) {
  const RandomFile file(path);
  return CrcOf(file, {0, file.size()});
}

}  // namespace crema
