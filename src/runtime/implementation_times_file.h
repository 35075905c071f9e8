// Times of implementations, stored on disk between runs.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace crema {

// The measurements of one layer on one machine.
struct KnownTimes {
  std::map<std::string, double> seconds;  // by implementation; empty: it was not measured
  // If it was not measured: the time limit (seconds) that was used up before its turn.
  double beyond = 0;
};

// By machine and layer, each text on one line.
using KnownLayers = std::map<std::string, KnownTimes>;

// Returns the text of the file: a version line, one line for each layer, and a last line with their
// number and checksum.
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
  // Returns nothing if there is no file. Throws kDataLoss for a damaged or foreign one, and
  // kIoFailure.
  KnownLayers Read() const;
  // Creates the folder if it is missing. Entries that other processes have written meanwhile take
  // precedence: the first measurement is final. Replaces a damaged file. Throws kIoFailure.
  void Add(const KnownLayers& layers) const;

 private:
  std::string folder_;
};

}  // namespace crema
