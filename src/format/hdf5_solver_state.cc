// Solver states in HDF5: Caffe's datasets, and "crema" with all further fields as a sealed,
// serialised SolverState.
#include "core/strings.h"
#include "crema.pb.h"
#include "format/hdf5_file.h"
#include "format/seal.h"
#include "format/solver_state.h"
#include "format/wire.h"

namespace crema {
namespace {

constexpr const char* kOwn = "crema";

// The state without the fields that have their own datasets.
std::string OwnFields(const SolverState& state) {
  SolverState own = state;
  own.clear_iter();
  own.clear_learned_net();
  own.clear_current_step();
  own.clear_history();
  own.clear_seal_head();
  own.clear_seal_tail();
  return own.ByteSizeLong() == 0 ? "" : Seal(own.SerializePartialAsString());
}

void ReadForkFields(const Hdf5Reader& reader, SolverState* state) {
  if (reader.Has("minimum_loss")) {
    state->set_minimum_loss(static_cast<float>(reader.ReadReal("minimum_loss")));
  }
  if (reader.Has("iter_last_event")) {
    state->set_iter_last_event(reader.ReadInteger("iter_last_event"));
  }
}

}  // namespace

SolverState ReadHdf5SolverState(const std::string& path) {
  const Hdf5Reader reader(path);
  for (const char* name : {"iter", "learned_net", "current_step", "history"}) {
    if (reader.Has(name)) continue;
    const bool is_model = reader.Has("data") && reader.IsGroup("data");
    Fail(ErrorCode::kDataLoss,
         is_model ? "is a weights file (caffemodel), not a solver state: give it with --weights, "
                    "and the .solverstate with --resume"
                  : StrCat("is an HDF5 file, but not a solver state: it has no '", name, "'"),
         {.file = path});
  }
  SolverState state;
  if (reader.Has(kOwn)) {
    const std::string own = reader.ReadBytes(kOwn);
    if (!ParseBinary(Unseal(own, path), &state)) reader.FailDamaged("'crema' cannot be parsed");
  }
  ReadForkFields(reader, &state);
  state.set_iter(reader.ReadInteger("iter"));
  state.set_learned_net(reader.ReadString("learned_net"));
  state.set_current_step(reader.ReadInteger("current_step"));
  const std::vector<std::string> names = reader.Names("history");
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != StrCat(i)) reader.FailDamaged(StrCat("history ", i, " is missing"));
    *state.add_history() = reader.ReadArray("history/" + names[i]);
  }
  reader.CheckSum();
  return state;
}

void WriteSolverStateHdf5(const SolverState& state, const std::string& path) {
  const std::string own = OwnFields(state);
  WriteHdf5Atomically(path, state.ByteSizeLong(), [&](Hdf5Writer& writer) {
    writer.WriteInteger("iter", state.iter());
    writer.WriteString("learned_net", state.learned_net());
    writer.WriteInteger("current_step", state.current_step());
    if (state.has_minimum_loss()) writer.WriteReal("minimum_loss", state.minimum_loss());
    if (state.has_iter_last_event()) {
      writer.WriteInteger("iter_last_event", state.iter_last_event());
    }
    if (!own.empty()) writer.WriteBytes(kOwn, own);
    writer.MakeGroup("history");
    for (int i = 0; i < state.history_size(); ++i) {
      writer.WriteData(StrCat("history/", i), state.history(i));
    }
  });
}

}  // namespace crema
