// --batch, and --set batch_size=AUTO, for commands that train.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "format/field_setting.h"
#include "graph/registry.h"
#include "plan/plan.h"
#include "runtime/compute_device.h"
#include "solvers/solver_config.h"

namespace crema::tools {

// Returns this command with --set=batch_size=N in the place of --batch=N, and AUTO for auto.
std::vector<std::string> CommandWithBatchSetting();

// The run with settings.
using RunReader = std::function<RunConfig(std::span<const FieldSetting>)>;

// Returns a run that can be planned: with a batch of 1 where its text has `batch_size: AUTO` and no
// setting has a number.
RunConfig ReadWithoutAuto(const RunReader& read, std::span<const FieldSetting> settings);

// Returns true if the last setting of batch_size is AUTO.
bool AsksForBatch(std::span<const FieldSetting> settings);
// Removes all settings of batch_size that are AUTO.
void DropAutoBatch(std::vector<FieldSetting>* settings);

// Replaces AUTO, of the settings or the text of the net, by the largest batch for which `memory`
// suffices, see ChooseBatch, and logs it and the learning rate that would go with it.
void ChooseAutoBatch(const RunReader& read, const Registry& registry, const PlanOptions& options,
                     int64_t memory, LogSink& log, std::vector<FieldSetting>* settings);

// The flag for an AUTO that the text of a net has.
inline constexpr const char* kAutoBatchFlag = "--set=batch_size=AUTO";

// Returns the command with the number of `settings` in the place of AUTO.
std::vector<std::string> CommandWithChosenBatch(std::vector<std::string> command,
                                                std::span<const FieldSetting> settings);

// Returns the bytes that can be allocated on each of these devices; 0: unknown.
int64_t FreeMemoryOf(std::span<const ComputeDevice> devices);

}  // namespace crema::tools
