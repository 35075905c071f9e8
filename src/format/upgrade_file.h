// Net, solver and weights files in any old format, brought to the present one as a whole.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

struct UpgradedFile {
  enum class Kind { kNetText, kSolverText, kNetBinary };
  Kind kind = Kind::kNetText;
  NetParameter net;        // of kNetText and kNetBinary
  SolverParameter solver;  // of kSolverText; nets inside of it are upgraded too
  SourceMap source;        // lines of a text
  std::vector<Problem> warnings;
  // The text to be written: that of the file itself, comments and all, when nothing was to do.
  std::string text;
  bool changed = false;
  int lost_comments = 0;  // in `text`
};

// Reads a net or solver as text, or a net (weights) in binary; NVCaffe's raw arrays become `data`.
// Throws what ReadNet, ReadSolver and ReadNetBinary throw, and kUnsupported for HDF5, which has no
// formats to upgrade.
UpgradedFile ReadUpgraded(const std::string& path);

// Problems for all that Caffe 1.0 would not read in it.
std::vector<Problem> FindNotStock(const UpgradedFile& file);

// Writes it atomically. Nothing but the path's contents changes: the mode stays, and where it is a
// link the file behind it is written.
void WriteUpgraded(const UpgradedFile& file, const std::string& path);

}  // namespace crema
