# Finds the OpenCV libraries that Crema uses, as targets opencv_core and so on. Not
# find_package(OpenCV): its file is in a package that requires every module of OpenCV. Sets
# OpenCV_FOUND, OpenCV_INCLUDE_DIRS, and OpenCV_VIDEOIO_FOUND for the optional module. Installed,
# since programs that link Crema need it too.
find_path(OpenCV_INCLUDE_DIRS opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
find_path(OpenCV_VIDEOIO_INCLUDE_DIRS opencv2/videoio.hpp PATH_SUFFIXES opencv4)
set(OpenCV_FOUND FALSE)
if(OpenCV_INCLUDE_DIRS)
  set(OpenCV_FOUND TRUE)
endif()
set(OpenCV_VIDEOIO_FOUND FALSE)
if(OpenCV_VIDEOIO_INCLUDE_DIRS)
  set(OpenCV_VIDEOIO_FOUND TRUE)
endif()
foreach(_module core imgproc imgcodecs videoio)
  find_library(OPENCV_${_module}_LIBRARY opencv_${_module})
  if(OPENCV_${_module}_LIBRARY)
    if(NOT TARGET opencv_${_module})
      add_library(opencv_${_module} UNKNOWN IMPORTED)
      set_target_properties(opencv_${_module} PROPERTIES
        IMPORTED_LOCATION ${OPENCV_${_module}_LIBRARY})
    endif()
  elseif(_module STREQUAL "videoio")
    set(OpenCV_VIDEOIO_FOUND FALSE)
  else()
    set(OpenCV_FOUND FALSE)
  endif()
endforeach()
