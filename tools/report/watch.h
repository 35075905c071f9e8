// Serves the page of `report` while runs are in progress.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

struct WatchOptions {
  std::vector<std::string> folders;  // may be missing as yet
  std::string title;
  int port = 0;            // 0: any free one
  bool until_eof = false;  // end when standard input ends, not by SIGINT or SIGTERM
};

// Serves the newest page to browsers of this machine (127.0.0.1), without tokens, and prints its
// URL. Returns at the end. Throws kIoFailure if the port is in use, kUnsupported in a build without
// `serve`.
void WatchRuns(const WatchOptions& options);

}  // namespace crema::tools
