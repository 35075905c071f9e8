// Files of `deploy export`, as a target and whole.
#include <algorithm>
#include <cstring>

#include "crema.pb.h"
#include "format/seal.h"
#include "inference/crema_export.h"
#include "inference/crema_file.h"
#include "inference/crema_layout.h"
#include "support/fuzz_corpus.h"
#include "support/fuzz_limits.h"
#include "support/fuzz_targets.h"
#include "support/serving_nets.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

template <typename T>
void Put(T value, size_t at, std::string* bytes) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

// Adds a valid checksum, so that the data after it are parsed.
std::string Sealed(std::string bytes) {
  using namespace crema_layout;  // NOLINT: a test
  bytes.resize(std::max(bytes.size(), kHeaderAt));
  bytes.replace(0, kMagic.size(), kMagic);
  Put(kCremaFormat, kFormatAt, &bytes);
  Put<uint64_t>(bytes.size(), kSizeAt, &bytes);
  const std::string_view all = bytes;
  Put(Crc32(all.substr(kChecksumAt + sizeof(uint32_t)), Crc32(all.substr(0, kChecksumAt))),
      kChecksumAt, &bytes);
  return bytes;
}

bool IsSmall(const NetParameter& net) {
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  return IsQuick(*MakePlan(net, {}, state, TestRegistry(), {.backward = false}, &warnings));
}

// Reads data sources, which TryPrototxt does not run either.
bool HasSources(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    return layer.type() != "Input" && layer.bottom_size() == 0;
  });
}

void ReadAndOpen(const std::string& bytes) {
  const CremaFileHeader header = ReadCremaFile(bytes, "m.crema");
  if (HasSources(header.net()) || !IsSmall(header.net())) return;
  const TempDir folder;
  Model::Open(folder.Write("m.crema", bytes), {.max_elements = kMostRunBytes / 4}, TestRegistry(),
              NullSink());
}

}  // namespace

std::string TryModelFile(std::string_view bytes) {
  const std::string as_it_is = ErrorOf([&] { ReadAndOpen(std::string(bytes)); });
  ErrorOf([&] { ReadAndOpen(Sealed(std::string(bytes))); });
  return as_it_is;
}

void AddWholeModelFile(std::vector<CorpusFile>* files) {
  const TempDir folder;
  ExportModel(ModelOf(kSmallNet), folder.File("m.crema"));
  files->push_back({"model file", "modelfile", folder.Read("m.crema"), ""});
}

}  // namespace crema::test
