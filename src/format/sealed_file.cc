#include "format/sealed_file.h"

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/seal.h"

namespace crema {
namespace {

template <typename Message>
void WriteUnsealed(const Message& message, const std::string& path) {
  const uint64_t size = message.ByteSizeLong();
  if (size + 2 * kSealBytes > kMaxFileBytes) {
    Where where;
    where.file = path;
    Fail(ErrorCode::kUnsupported,
         StrCat("cannot be written: it would have ", size, " bytes, and such files end at 2 GiB; ",
                "set snapshot_format: HDF5"),
         where);
  }
  std::string body;
  body.reserve(size);
  message.AppendPartialToString(&body);
  const SealParts seal = SealOf(body);
  AtomicFile file(path, size + 2 * kSealBytes);
  file.Write(seal.head);
  file.Write(body);
  file.Write(seal.tail);
  file.Commit();
}

template <typename Message>
void WriteAny(const Message& message, const std::string& path) {
  if (!message.has_seal_head() && !message.has_seal_tail()) return WriteUnsealed(message, path);
  Message copy = message;
  copy.clear_seal_head();
  copy.clear_seal_tail();
  WriteUnsealed(copy, path);
}

}  // namespace

void WriteSealed(const NetParameter& net, const std::string& path) { WriteAny(net, path); }
void WriteSealed(const SolverState& state, const std::string& path) { WriteAny(state, path); }

}  // namespace crema
