// Prints the findings of check_data as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "check_data/findings.h"

namespace crema::tools {

std::string ReportText(std::span<const SetSummary> sets, std::span<const Finding> findings);
std::string ReportJson(std::span<const SetSummary> sets, std::span<const Finding> findings);

}  // namespace crema::tools
