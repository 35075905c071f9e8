// Upgrades whole net, solver and weights files of any old format.
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
  NetParameter net;        // for kNetText and kNetBinary
  SolverParameter solver;  // for kSolverText; nets inside are upgraded, too
  SourceMap source;        // positions in a text
  std::vector<Problem> warnings;
  // The text to write: the unchanged file, with its comments, if nothing was upgraded.
  std::string text;
  bool changed = false;
  int lost_comments = 0;  // comments missing from `text`
};

// Reads a net or solver as text, or a binary net (weights); converts NVCaffe's raw arrays to
// `data`. Throws what ReadNet, ReadSolver and ReadNetBinary throw, and kUnsupported for HDF5, which
// has no old formats.
UpgradedFile ReadUpgraded(const std::string& path);

// Returns a problem for everything that Caffe 1.0 does not support.
std::vector<Problem> FindNotStock(const UpgradedFile& file);

// Writes atomically. Keeps the file mode, and writes to the target of a link.
void WriteUpgraded(const UpgradedFile& file, const std::string& path);

}  // namespace crema
