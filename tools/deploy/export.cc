#include "common/tool.h"
#include "core/error.h"
#include "deploy/actions.h"
#include "deploy/options.h"

namespace crema::tools {

int Export(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  Fail(ErrorCode::kUnsupported, "");
}

}  // namespace crema::tools
