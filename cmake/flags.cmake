# An interface target with the compiler settings of all sources of Crema.
add_library(crema_flags INTERFACE)
target_compile_options(crema_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-unknown-pragmas -Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall -Werror=all-warnings --extended-lambda
                             --expt-relaxed-constexpr>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  # Release is -O3, where g++ 12 reports false overflows in std::string (PR 105329, PR 105651).
  target_compile_options(crema_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict
                              -Wno-stringop-overflow -Wno-stringop-overread>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CREMA_SANITIZE)
  # With the address sanitizer g++ 12 reports uninitialised values in std::regex (PR 105562); with
  # the thread sanitizer it reports overflows as above, and unsupported fences in Asio.
  target_compile_options(crema_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict
                              -Wno-stringop-overflow -Wno-stringop-overread -Wno-tsan>)
endif()
if(CREMA_OPENMP)
  target_link_libraries(crema_flags INTERFACE OpenMP::OpenMP_CXX)
endif()
if(CREMA_SANITIZE)
  set(_sanitize -fsanitize=${CREMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(crema_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${_sanitize}>)
  target_compile_definitions(crema_flags INTERFACE CREMA_SANITIZED)
  target_link_options(crema_flags INTERFACE -fsanitize=${CREMA_SANITIZE})
  # The sanitizers intercept dlopen, so the run path of the program must apply to all libraries.
  target_link_options(crema_flags INTERFACE LINKER:--disable-new-dtags)
endif()

if(NOT CREMA_LINKER STREQUAL "default")
  set(_linkers ${CREMA_LINKER})
  if(CREMA_LINKER STREQUAL "AUTO")
    set(_linkers mold lld)
  endif()
  include(CheckLinkerFlag)
  foreach(_linker ${_linkers})
    check_linker_flag(CXX -fuse-ld=${_linker} CREMA_HAVE_LINKER_${_linker})
    if(CREMA_HAVE_LINKER_${_linker})
      add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=${_linker}>)
      break()
    elseif(NOT CREMA_LINKER STREQUAL "AUTO")
      message(FATAL_ERROR "CREMA_LINKER=${_linker}: the compiler cannot link with it")
    endif()
  endforeach()
endif()

# With ccache a second build of the same sources, in any folder, reuses the objects of the first.
if(CREMA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CREMA_CCACHE_PROGRAM ccache)
  if(CREMA_CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER ${CREMA_CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CREMA_CCACHE_PROGRAM})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CREMA_CCACHE_PROGRAM})
  endif()
endif()
set(CREMA_HAVE_PCH ${CREMA_PCH})
if(CREMA_PCH STREQUAL "AUTO")
  set(CREMA_HAVE_PCH ON)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set(CREMA_HAVE_PCH OFF)
  endif()
endif()
