// Times of implementations, kept on disk from run to run.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace crema {

// What is known of one layer on one machine.
struct KnownTimes {
  std::map<std::string, double> seconds;  // by implementation; empty: it was not measured
  // Where it was not: the bound on measuring (seconds) that was spent before its turn came.
  double beyond = 0;
};

// By machine and layer, each text on one line.
using KnownLayers = std::map<std::string, KnownTimes>;

// The text of the file: a line that says the version, one for each layer, and one with their number
// and checksum at the end.
std::string PrintImplementationTimes(const KnownLayers& layers);
// Throws kDataLoss for anything that PrintImplementationTimes does not write.
KnownLayers ParseImplementationTimes(std::string_view text);

// Adds those of `more` that are not known or were not measured.
void MergeImplementationTimes(const KnownLayers& more, KnownLayers* layers);

// The file "implementation_times" of a folder. Thread safety: any number of processes and threads.
class ImplementationTimesFile {
 public:
  explicit ImplementationTimesFile(std::string folder) : folder_(std::move(folder)) {}

  std::string path() const { return folder_ + "/implementation_times"; }
  // Empty where there is no file. Throws kDataLoss for a damaged or foreign one and kIoFailure.
  KnownLayers Read() const;
  // Makes the folder where it is missing. What others have written meanwhile stays and counts: what
  // was measured first is used ever after. A damaged file is replaced. Throws kIoFailure.
  void Add(const KnownLayers& layers) const;

 private:
  std::string folder_;
};

}  // namespace crema
