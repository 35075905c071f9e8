// The page of a run while it trains (--watch).
#pragma once

#include <string>

namespace crema::tools {

// A process of its own, `report --watch`, which ends with this one: so training links no server and
// never waits for a browser. Thread safety: one thread.
class LivePage {
 public:
  // Does nothing unless --watch is given. Prints the URL. `run_folder` need not exist yet. Throws
  // kInvalidArgument for a wrong port and without a folder, kIoFailure if the page does not start.
  explicit LivePage(const std::string& run_folder);
  // Lets a browser that looks at the page see the end, for a few seconds at most.
  ~LivePage() { End(); }
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

 private:
  void End();

  int process_ = -1;
  int input_ = -1;  // of the process, which ends when it is closed
};

}  // namespace crema::tools
