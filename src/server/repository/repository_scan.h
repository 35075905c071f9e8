// The folder of a repository: DIR/<model>/<version>/.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace crema::server {

// Files of one version: a .crema file, or a net with its weights.
struct VersionFiles {
  std::string crema;      // model.crema; empty: the two below
  std::string net;        // model.prototxt
  std::string weights;    // model.caffemodel or model.caffemodel.h5
  std::string labels;     // labels.txt, a class a line; may be empty
  std::string folder;     // real one that the net may name files in; empty: it may name any
  std::string signature;  // changes when the files do
  std::string problem;    // why they cannot be loaded; empty: they may
  bool unknown = false;   // the system does not let us look, as `problem` says
};

struct ScannedRepository {
  std::map<std::string, std::map<int64_t, VersionFiles>> models;
  std::set<std::string> unknown;      // models whose folders the system does not let us look into
  std::vector<std::string> warnings;  // with paths: for the log
};

// Folders whose names are no model or version are passed over. A link that leads out of the
// repository is a problem of its version. Throws kNotFound and kIoFailure for the folder itself:
// what cannot be listed is not empty.
ScannedRepository ScanRepository(const std::string& path);

}  // namespace crema::server
