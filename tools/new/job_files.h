// Writes the files of a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "new/job.h"

namespace crema::tools {

// A new folder that is removed, with all that is in it and the new folders above it that have
// nothing else in them, unless Keep is called.
class NewFolder {
 public:
  // Throws kInvalidArgument if `path` exists, kIoFailure if it cannot be made.
  explicit NewFolder(const std::string& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void Keep() { keep_ = true; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> above_ = {};  // new ones, upwards
  bool keep_ = false;
};

// Returns the solver of the job: the rule, rate and decay of the model, its rate scaled to the
// batch of the job and falling to 0 over the epochs.
SolverParameter MakeJobSolver(const Job& job, uint64_t seed);

// Throw kIoFailure.
void WriteNet(const Job& job, const NetParameter& net);  // train_val.prototxt
void WriteSolver(const Job& job, const SolverParameter& solver);
void WriteClassNames(const Job& job);  // labels.txt
void WriteImageList(const Job& job, const PictureSet& set, const std::string& name);
void WriteReadme(const Job& job);

// Returns the commands that come after `new`, one each, from the working folder.
std::vector<std::string> NextCommands(const Job& job);

}  // namespace crema::tools
