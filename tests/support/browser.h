// Opens pages in Chromium without a window.
#pragma once

#include <string>

#include "support/process.h"

namespace crema::test {

// Returns the program: of the environment variable CREMA_CHROMIUM, or chromium on PATH. Empty:
// none.
std::string Chromium();

// Opens `place`, a file or a URL, and runs `action`: "--dump-dom" prints the document to `out`
// after its scripts have run, "--screenshot=FILE" takes a picture. `folder` is for the files of the
// browser. Requires: Chromium().
ProcessResult Browse(const std::string& place, const std::string& action, int width, int height,
                     const std::string& folder);

// Returns what a script of the page has set as attribute data-NAME of <body>; empty: nothing.
std::string BodyData(const std::string& document, const std::string& name);

}  // namespace crema::test
