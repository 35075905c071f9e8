#include "api/model_files.h"

namespace crema::api_test {

std::string PathOf(const std::string& program) {
  return std::string(CREMA_BIN_DIR) + "/" + program;
}

}  // namespace crema::api_test
