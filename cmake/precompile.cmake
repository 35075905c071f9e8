# Precompiled headers: most sources include the generated schema, which is most of their parsing.
# Included after all folders, since it refers to their targets.
if(NOT CREMA_HAVE_PCH)
  return()
endif()
set(_schema <algorithm> <functional> <map> <memory> <string> <vector>
    "${PROJECT_BINARY_DIR}/proto/crema.pb.h")

target_precompile_headers(crema PRIVATE ${_schema})
if(CREMA_HAVE_SERVER)
  target_precompile_headers(crema_server PRIVATE ${_schema})
endif()
target_precompile_headers(crema_tools PRIVATE ${_schema})
foreach(_target ${CREMA_COMMANDS})
  target_precompile_headers(${_target} REUSE_FROM crema_tools)
endforeach()
if(CREMA_BUILD_TESTS)
  target_precompile_headers(crema_test_support PRIVATE ${_schema} <gtest/gtest.h>)
  get_property(_targets DIRECTORY tests PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER _targets INCLUDE REGEX "_test$")
  foreach(_target ${_targets})
    target_precompile_headers(${_target} REUSE_FROM crema_test_support)
  endforeach()
endif()
