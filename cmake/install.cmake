# The files that `make install` installs:
#   include/crema/           headers (sources say #include "core/error.h", so this is the include path)
#   lib/                     libcrema.a and libcrema_proto.a, or libcrema.so; cmake/Crema/,
#                            pkgconfig/crema.pc;
#                            libcrema_images.so, libcrema_video.so: loaded when they are needed
#   include/crema/deploy.h, include/crema/crema.h, lib/libcrema_deploy.so, lib/cmake/CremaDeploy/,
#                            lib/pkgconfig/crema_deploy.pc: to run models, with nothing else needed
#   include/crema/plugin.h   to write plugins
#   libexec/crema/           the commands; bin/crema is their front
#   lib/crema/caffe-tools/   Caffe's programs by their names, and build/, the same as in Caffe's build
#   share/crema/             proto/crema.proto, proto/crema_file.proto, models/
#   share/man/man1/          a page for each command, with the commands
#   share/bash-completion/completions/, share/zsh/site-functions/, share/fish/vendor_completions.d/
#   share/doc/crema/         docs/; crema-serve.default, an example of /etc/default/crema-serve
#   lib/systemd/system/      crema-serve.service, with the server
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The flags target is not installed, but programs that use the library need the OpenMP runtime too.
if(CREMA_OPENMP)
  target_link_libraries(crema PRIVATE OpenMP::OpenMP_CXX)
endif()
target_compile_features(crema PUBLIC cxx_std_20)

set(_include ${CMAKE_INSTALL_INCLUDEDIR}/crema)
set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/Crema)
set(_share ${CMAKE_INSTALL_DATADIR}/crema)

install(TARGETS crema crema_proto EXPORT CremaTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(CREMA_MODULES)
  install(TARGETS ${CREMA_MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT CremaTargets NAMESPACE Crema:: DESTINATION ${_package})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${_include} FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_BINARY_DIR}/proto/crema.pb.h ${PROJECT_BINARY_DIR}/proto/crema_file.pb.h
        DESTINATION ${_include})
install(FILES ${PROJECT_SOURCE_DIR}/proto/crema.proto ${PROJECT_SOURCE_DIR}/proto/crema_file.proto
        DESTINATION ${_share}/proto)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION ${_share}
        FILES_MATCHING PATTERN *.prototxt PATTERN README.md PATTERN *.txt PATTERN *.py
        PATTERN *.sh PATTERN zoo.json PATTERN *.caffemodel PATTERN *.crema PATTERN *.onnx)
# train.sh of a model gets its data by them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data DESTINATION ${_share} FILES_MATCHING PATTERN get.sh)

# The front command is in the same folder as the others in the build, and one folder above them when
# installed.
configure_file(${PROJECT_SOURCE_DIR}/tools/crema.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/crema @ONLY)
install(PROGRAMS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/crema DESTINATION ${CMAKE_INSTALL_BINDIR})
if(CREMA_COMMANDS)
  install(TARGETS ${CREMA_COMMANDS} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/crema)
  # The commands describe themselves.
  set(_manuals ${PROJECT_SOURCE_DIR}/scripts/manuals.sh)
  file(GLOB _completion CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/completion/*)
  add_custom_command(
    OUTPUT ${PROJECT_BINARY_DIR}/manuals.stamp
    COMMAND sh ${_manuals} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${PROJECT_BINARY_DIR}/manuals
            ${CREMA_COMMANDS}
    COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/manuals.stamp
    DEPENDS ${CREMA_COMMANDS} ${_manuals} ${_completion}
            ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/crema
    COMMENT "Writing manuals and completions of shells" VERBATIM)
  # With all that is built: installation may run as another user, and writes nothing here.
  add_custom_target(manuals ALL DEPENDS ${PROJECT_BINARY_DIR}/manuals.stamp)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manuals/ DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()

# Caffe's programs: one script, and links to it by their names, each with and without .bin. build/ has
# them in the places where Caffe's own scripts expect them.
set(_caffe ${PROJECT_BINARY_DIR}/caffe-tools)
file(RELATIVE_PATH CREMA_COMMANDS_FROM_CAFFE ${CMAKE_INSTALL_FULL_LIBDIR}/crema/caffe-tools
     ${CMAKE_INSTALL_FULL_LIBEXECDIR}/crema)
configure_file(${PROJECT_SOURCE_DIR}/tools/caffe.sh ${_caffe}/caffe @ONLY)
file(CREATE_LINK caffe ${_caffe}/caffe.bin SYMBOLIC)
foreach(_name convert_imageset compute_image_mean extract_features upgrade_net_proto_text
        upgrade_net_proto_binary upgrade_solver_proto_text convert_mnist_data convert_cifar_data
        convert_mnist_siamese_data create_label_map get_image_size train_net finetune_net test_net
        net_speed_benchmark device_query)
  file(CREATE_LINK caffe ${_caffe}/${_name} SYMBOLIC)
  file(CREATE_LINK caffe ${_caffe}/${_name}.bin SYMBOLIC)
endforeach()
file(MAKE_DIRECTORY ${_caffe}/build/examples)
file(CREATE_LINK .. ${_caffe}/build/tools SYMBOLIC)
foreach(_name mnist cifar10 siamese)
  file(CREATE_LINK ../.. ${_caffe}/build/examples/${_name} SYMBOLIC)
endforeach()
install(DIRECTORY ${_caffe} DESTINATION ${CMAKE_INSTALL_LIBDIR}/crema USE_SOURCE_PERMISSIONS)

# The unit of systemd names the prefix, which is known when it is installed.
set(_docs ${CMAKE_INSTALL_DATADIR}/doc/crema)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${_docs})
if(TARGET serve)
  install(CODE "
    set(prefix \"\${CMAKE_INSTALL_PREFIX}\")
    set(bin \"${CMAKE_INSTALL_BINDIR}\")
    set(docs \"${_docs}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/packaging/crema-serve.service.in\"
                   \"\$ENV{DESTDIR}\${prefix}/lib/systemd/system/crema-serve.service\" @ONLY)")
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/crema-serve.default DESTINATION ${_docs})
endif()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/CremaConfig.cmake.in ${PROJECT_BINARY_DIR}/CremaConfig.cmake
  INSTALL_DESTINATION ${_package})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/CremaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/CremaConfig.cmake ${PROJECT_BINARY_DIR}/CremaConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/find_opencv.cmake
              ${PROJECT_SOURCE_DIR}/cmake/find_leveldb.cmake
        DESTINATION ${_package})

# The library that runs models, a package of its own: its users need none of Crema's dependencies.
install(TARGETS crema_deploy crema_plugin EXPORT CremaDeployTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/crema/deploy.h ${PROJECT_SOURCE_DIR}/include/crema/crema.h
              ${PROJECT_SOURCE_DIR}/include/crema/plugin.h
        DESTINATION ${_include})
set(_deploy_package ${CMAKE_INSTALL_LIBDIR}/cmake/CremaDeploy)
install(EXPORT CremaDeployTargets NAMESPACE Crema:: DESTINATION ${_deploy_package})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/CremaDeployConfig.cmake.in ${PROJECT_BINARY_DIR}/CremaDeployConfig.cmake
  INSTALL_DESTINATION ${_deploy_package})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/CremaDeployConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/CremaDeployConfig.cmake
              ${PROJECT_BINARY_DIR}/CremaDeployConfigVersion.cmake DESTINATION ${_deploy_package})

# For pkg-config: libraries with a .pc file are required, the others are named. Nothing is private,
# as a static library needs all of them.
set(CREMA_PC_LIBS "-llmdb -lpthread -l${CMAKE_DL_LIBS}")
if(NOT CREMA_SHARED)
  string(PREPEND CREMA_PC_LIBS "-lcrema_proto ")
endif()
if(CREMA_OPENMP)
  string(APPEND CREMA_PC_LIBS " ${OpenMP_CXX_FLAGS}")
endif()
if(CREMA_HAVE_OPENCV)
  # Not opencv4.pc: it names every module of OpenCV, even missing ones.
  string(APPEND CREMA_PC_LIBS " -lopencv_imgproc -lopencv_core -Wl,-rpath,\${libdir}")
endif()
if(CREMA_HAVE_JPEG)
  string(APPEND CREMA_PC_LIBS " -ljpeg")
endif()
if(CREMA_HAVE_HDF5)
  string(REPLACE ";" " " _hdf5 "${HDF5_C_LIBRARIES}")
  string(APPEND CREMA_PC_LIBS " ${_hdf5}")
endif()
if(CREMA_HAVE_LEVELDB)
  string(APPEND CREMA_PC_LIBS " -lleveldb")
endif()
if(CREMA_HAVE_ZIP)
  string(APPEND CREMA_PC_LIBS " -lminizip")
endif()
if(CREMA_HAVE_ONEDNN)
  string(APPEND CREMA_PC_LIBS " ${DNNL_LIBRARY}")
endif()
if(CREMA_HAVE_CUDA)
  string(APPEND CREMA_PC_LIBS
         " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
# From the folder of crema.pc to the prefix, for any installation folder.
string(REGEX REPLACE "[^/]+" ".." CREMA_PC_PREFIX "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file(${PROJECT_SOURCE_DIR}/cmake/crema.pc.in ${PROJECT_BINARY_DIR}/crema.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/crema_deploy.pc.in ${PROJECT_BINARY_DIR}/crema_deploy.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/crema.pc ${PROJECT_BINARY_DIR}/crema_deploy.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
