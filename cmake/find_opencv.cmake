# Finds the three OpenCV libraries that Crema uses, as targets opencv_core and so on. Not
# find_package(OpenCV): its file comes with a package that holds every module of OpenCV.
# Sets OpenCV_FOUND and OpenCV_INCLUDE_DIRS. Installed, since programs that link Crema need it too.
find_path(OpenCV_INCLUDE_DIRS opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
set(OpenCV_FOUND FALSE)
if(OpenCV_INCLUDE_DIRS)
  set(OpenCV_FOUND TRUE)
endif()
foreach(_module core imgproc imgcodecs)
  find_library(OPENCV_${_module}_LIBRARY opencv_${_module})
  if(NOT OPENCV_${_module}_LIBRARY)
    set(OpenCV_FOUND FALSE)
  elseif(NOT TARGET opencv_${_module})
    add_library(opencv_${_module} UNKNOWN IMPORTED)
    set_target_properties(opencv_${_module} PROPERTIES
      IMPORTED_LOCATION ${OPENCV_${_module}_LIBRARY})
  endif()
endforeach()
