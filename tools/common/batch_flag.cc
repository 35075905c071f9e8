#include "common/batch_flag.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <ranges>
#include <string_view>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/batch_choice.h"
#include "solvers/run_memory.h"

// CommandWithBatchSetting reads the command line.
DEFINE_string(
    batch, "",
    "[Run auto|N] samples of a batch of the training net; auto: as many as memory allows, "
    "short for --set batch_size=AUTO");

namespace crema::tools {
namespace {

constexpr std::string_view kAuto = "AUTO";
constexpr std::string_view kSetAuto = "batch_size=AUTO";

FieldSetting BatchSetting(int64_t batch) {
  return {.path = kBatchPath, .value = StrCat(batch), .origin = std::string(kSetAuto)};
}

// Returns the setting for the value of --batch.
std::string SettingOf(std::string_view value) {
  return StrCat("--set=", kBatchPath, "=", value == "auto" ? kAuto : value);
}

void LogChoice(const BatchChoice& choice, const RunConfig& written, int64_t memory, LogSink& log) {
  const SolverParameter& solver = written.solver.solver;
  log.Write(Severity::kInfo,
            StrCat("batch_size=AUTO: a batch of ", choice.batch, ", which needs ",
                   Mebibytes(choice.needed), " of ", Mebibytes(memory), "; ", choice.limit));
  if (choice.batch == choice.written || !solver.has_base_lr()) return;
  if (HasAutoBatch(written.train.file.net, TRAIN)) return;  // the rate is for an unknown batch
  const double ratio = static_cast<double>(choice.batch) / static_cast<double>(choice.written);
  char rate[32];
  std::snprintf(rate, sizeof(rate), "%.4g", static_cast<double>(solver.base_lr()) * ratio);
  log.Write(Severity::kInfo,
            StrCat("base_lr stays ", solver.base_lr(), ", which was for a batch of ",
                   choice.written, "; by the linear rule of Goyal et al. (2017) it would be ", rate,
                   ": --set base_lr=", rate));
}

}  // namespace

std::vector<std::string> CommandWithBatchSetting() {
  std::vector<std::string> command;
  const std::vector<std::string> given = google::GetArgvs();
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string_view word = given[i];
    const std::string_view flag =
        word.substr(std::min(word.size(), word.starts_with("--") ? 2UL : 1UL));
    if (i > 0 && word.starts_with('-') && flag.starts_with("batch=")) {
      command.push_back(SettingOf(flag.substr(flag.find('=') + 1)));
    } else if (i > 0 && word.starts_with('-') && flag == "batch" && i + 1 < given.size()) {
      command.push_back(SettingOf(given[++i]));
    } else {
      command.push_back(given[i]);
    }
  }
  return command;
}

bool AsksForBatch(std::span<const FieldSetting> settings) {
  for (const FieldSetting& setting : settings | std::views::reverse) {
    if (setting.path == kBatchPath) return setting.value == kAuto;
  }
  return false;
}

void DropAutoBatch(std::vector<FieldSetting>* settings) {
  std::erase_if(*settings, [](const FieldSetting& setting) {
    return setting.path == kBatchPath && setting.value == kAuto;
  });
}

RunConfig ReadWithoutAuto(const RunReader& read, std::span<const FieldSetting> settings) {
  RunConfig config = read(settings);
  if (!HasAutoBatch(config.train.file.net, TRAIN)) return config;
  std::vector<FieldSetting> with(settings.begin(), settings.end());
  with.push_back(BatchSetting(1));
  return read(with);
}

void ChooseAutoBatch(const RunReader& read, const Registry& registry, const PlanOptions& options,
                     int64_t memory, LogSink& log, std::vector<FieldSetting>* settings) {
  // In the place of the last AUTO of a setting; AUTO of the text comes before all settings.
  const auto is_auto = [](const FieldSetting& one) {
    return one.path == kBatchPath && one.value == kAuto;
  };
  const auto last = std::find_if(settings->rbegin(), settings->rend(), is_auto).base();
  const ptrdiff_t place = std::count_if(settings->begin(), last, std::not_fn(is_auto));
  std::erase_if(*settings, is_auto);
  if (memory == 0) {
    Fail(ErrorCode::kUnsupported,
         "batch_size=AUTO: this system does not say how much memory is available; give a number");
  }
  const auto config_of = [&](int64_t batch) {
    if (batch == 0) return ReadWithoutAuto(read, *settings);
    std::vector<FieldSetting> with = *settings;
    with.insert(with.begin() + place, BatchSetting(batch));
    return read(with);
  };
  const BatchChoice choice = ChooseBatch(config_of, registry, options, memory);
  LogChoice(choice, read(*settings), memory, log);
  settings->insert(settings->begin() + place, BatchSetting(choice.batch));
}

std::vector<std::string> CommandWithChosenBatch(std::vector<std::string> command,
                                                std::span<const FieldSetting> settings) {
  for (const FieldSetting& setting : settings | std::views::reverse) {
    if (setting.path != kBatchPath) continue;
    for (std::string& word : command) {
      if (word.ends_with(kSetAuto)) {
        word.replace(word.size() - kAuto.size(), kAuto.size(), setting.value);
      }
    }
    break;
  }
  return command;
}

int64_t FreeMemoryOf(std::span<const ComputeDevice> devices) {
  int64_t least = 0;
  for (const ComputeDevice& device : devices) {
    const int64_t free = device.is_gpu() ? device.FreeBytes() : AvailableMemory();
    if (&device == &devices.front() || free < least) least = free;
  }
  return least;
}

}  // namespace crema::tools
