// Layers of type "Python", which a class of the user computes. The extension module crema._core of
// the Python package makes them; a command loads Python for it.
#pragma once

#include <memory>

#include "graph/layer.h"

namespace crema {

using PythonLayerMaker = std::unique_ptr<const Layer> (*)(const LayerParameter&);

// Called by crema._core when Python imports it.
void SetPythonLayerMaker(PythonLayerMaker maker);

// Makes a layer of type "Python". Before the first one it loads Python, if this program is not
// Python itself. Throws kUnsupported if that is impossible; the message says what to install.
std::unique_ptr<const Layer> MakePythonLayer(const LayerParameter& param);

// Returns true if MakePythonLayer has loaded Python, so that nobody else handles its exceptions.
bool IsPythonEmbedded();

// Returns the real path of the file that has this copy of the library: libcrema.so, or the program.
std::string LibraryPath();

}  // namespace crema
