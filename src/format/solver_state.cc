#include "format/solver_state.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/file.h"
#include "format/seal.h"
#include "format/sniff.h"
#include "format/wire.h"

namespace crema {
namespace {

constexpr const char* kExpected = "a solver state";

[[noreturn]] void FailFile(const std::string& path, std::string message) {
  Fail(ErrorCode::kDataLoss, std::move(message), {.file = path});
}

void CheckState(const SolverState& state, bool is_sealed, const std::string& path) {
  // Caffe always writes all three, current_step last; without it the file is truncated.
  const bool has_rest = is_sealed || (state.has_learned_net() && state.has_current_step());
  if (!state.has_iter() || !has_rest) {
    const char* missing = !state.has_iter()          ? "iter"
                          : !state.has_learned_net() ? "learned_net"
                                                     : "current_step";
    FailFile(path, StrCat("is cut short, or not ", kExpected, ": '", missing,
                          "' is missing; resume from an earlier snapshot"));
  }
  if (state.iter() < 0) FailFile(path, StrCat("is damaged: iteration ", state.iter()));
  for (int i = 0; i < state.history_size(); ++i) {
    try {
      CheckBlob(state.history(i));
    } catch (const Error& error) {
      FailFile(path, StrCat("is damaged: history ", i, ": ", error.problems().front().message));
    }
  }
}

}  // namespace

SolverState ReadSolverState(const std::string& path) {
  SolverState state;
  bool is_sealed = false;
  if (Sniff(ReadFileStart(path, kSniffBytes)) == Content::kHdf5) {
    state = ReadHdf5SolverState(path);
  } else {
    const std::string bytes = ReadFile(path);
    const std::string_view body = Unseal(bytes, path);
    is_sealed = body.data() != bytes.data();
    if (!is_sealed) CheckIsBinary(bytes, path, kExpected);
    NetParameter net;
    if (ParseBinary(body, &net) && net.layer_size() > 0) {
      FailFile(path, StrCat("is a weights file (caffemodel), not ", kExpected,
                            ": give it with --weights, and the .solverstate with --resume"));
    }
    if (!ParseBinary(body, &state)) {
      FailFile(path, StrCat("is damaged or truncated, or not ", kExpected,
                            "; resume from an earlier snapshot"));
    }
  }
  CheckState(state, is_sealed, path);
  return state;
}

void WriteSolverState(const SolverState& state, const std::string& path) {
  WriteSealed(state, path);
}

}  // namespace crema
