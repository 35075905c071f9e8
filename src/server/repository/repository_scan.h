// Scans a repository folder: DIR/<model>/<version>/.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace crema::server {

// Files of one version: a .crema file, an .onnx file, a net with its weights, or a cascade.
struct VersionFiles {
  std::string crema;    // model.crema; empty: what follows
  std::string onnx;     // model.onnx; empty: what follows
  std::string data;     // model.onnx.data, weights beside it; may be empty
  std::string net;      // model.prototxt
  std::string weights;  // model.caffemodel or model.caffemodel.h5
  std::string cascade;  // cascade.txt, if there is none of these; its nets are beside it
  std::string labels;   // labels.txt, one class per line; may be empty
  std::string folder;   // real path of the folder that the net may refer to; empty: no restriction
  std::string signature;  // changes when the files do
  std::string problem;    // why they cannot be loaded; empty: no problem
  bool unknown = false;   // the system denies access, as `problem` says
};

struct ScannedRepository {
  std::map<std::string, std::map<int64_t, VersionFiles>> models;
  std::set<std::string> unknown;      // models whose folders are not accessible
  std::vector<std::string> warnings;  // for the log, with paths
};

// Ignores folders whose names are not a model or version. A link that leaves the repository is a
// problem of its version. Throws kNotFound and kIoFailure for the folder itself: an unreadable
// folder is not an empty one.
ScannedRepository ScanRepository(const std::string& path);

}  // namespace crema::server
