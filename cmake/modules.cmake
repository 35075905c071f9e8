# The folders of libcrema_<name>.so (core/module.h): in the build folder, and when installed,
# relative to libexec/crema/, beside libcrema.a.
include(GNUInstallDirs)
set(CREMA_MODULE_DIR ${CMAKE_BINARY_DIR}/lib)
file(RELATIVE_PATH _to_lib /${CMAKE_INSTALL_LIBEXECDIR}/crema /${CMAKE_INSTALL_LIBDIR})
set(CMAKE_BUILD_RPATH ${CREMA_MODULE_DIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${_to_lib}")
if(CREMA_PYTHON)  # the wheel has bin/ and lib/
  list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
endif()
