// Sets single fields of a net or a solver by path, as --set does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema {

// A field and its new value, such as "layer[conv1].convolution_param.num_output" and "64". An
// element of a repeated field is chosen by its index or its `name`; layers also by name and phase
// ("layer[data:TRAIN]"). Without index the value replaces the whole list, and may be one:
// "[10, 20]". A path that begins with a field of the solver belongs to the solver; any other, or
// one that begins with "net.", to the nets. The path "batch_size" stands for that of data layers,
// see NetSettings.
struct FieldSetting {
  std::string path;
  std::string value;   // in text format; strings may be without quotes
  std::string origin;  // takes the place of the file in messages: "--set base_lr=0.1"
};

// Splits "FIELD=VALUE". Throws kInvalidArgument without a "=" outside of brackets; `flag` ("--set")
// is for messages.
FieldSetting ParseFieldSetting(std::string_view text, std::string_view flag);

// Returns the settings that belong to the nets of a solver.
std::vector<FieldSetting> SettingsOfNets(std::span<const FieldSetting> settings);

// Sets the fields that belong to the solver, and upgrades it again. Throws kInvalidArgument with
// all problems: unknown fields and elements, and values that a file could not have either.
void SetSolverFields(std::span<const FieldSetting> settings, SolverFile* file);

inline constexpr const char* kBatchPath = "batch_size";

// Stands for AUTO as the batch_size of a data layer, which refuses the value.
inline constexpr uint32_t kAutoBatch = UINT32_MAX;
// Returns true if a data layer that runs in the phase, or in any, has `batch_size: AUTO`.
bool HasAutoBatch(const NetParameter& net, std::optional<Phase> phase = std::nullopt);

// Sets fields in the nets of a run. A layer need not be in all of them. Thread safety: one thread.
class NetSettings {
 public:
  // "batch_size" stands for that of the data layers that run in `batch_phase`, or in any.
  explicit NetSettings(std::span<const FieldSetting> settings,
                       std::optional<Phase> batch_phase = std::nullopt);

  // Sets the fields that this net has, and upgrades it again. `only` is the phase of a net that
  // runs in one. Adds a warning if a name stands for several layers.
  void Apply(std::optional<Phase> only, NetFile* file);

  // Returns the problems of all settings: wrong paths and values, and layers that no net has.
  std::vector<Problem> Problems() const;

 private:
  struct Entry {
    FieldSetting setting;
    bool is_set = false;
    std::optional<Problem> problem;  // from the last net that failed
  };
  std::vector<Entry> entries_;
  const std::optional<Phase> batch_phase_;
};

}  // namespace crema
