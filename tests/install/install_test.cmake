# Run by ctest, see CMakeLists.txt. Every step that fails ends the script with its output.
function(run out)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\nended with ${status}:\n${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(expect text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "expected '${pattern}' in:\n${text}")
  endif()
endfunction()

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/consumer)
run(text ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
set(net ${prefix}/share/crema/models/lenet/deploy.prototxt)
set(layers "conv1.*pool1.*conv2.*ip1.*ip2.*prob")

# find_package.
configure_file(${SOURCE_DIR}/consumer.cmake.in ${WORK_DIR}/consumer/CMakeLists.txt @ONLY)
run(text ${CMAKE_COMMAND} -S ${WORK_DIR}/consumer -B ${WORK_DIR}/consumer/build
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${FLAGS})
run(text ${CMAKE_COMMAND} --build ${WORK_DIR}/consumer/build)
run(text ${WORK_DIR}/consumer/build/show_net ${net})
expect("${text}" "${layers}")

# pkg-config.
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(flags pkg-config --cflags --libs crema)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(text ${CXX} -std=c++20 ${FLAGS} ${SOURCE_DIR}/show_net.cc -o ${WORK_DIR}/show_net ${flags})
run(text ${WORK_DIR}/show_net ${net})
expect("${text}" "${layers}")

# Programs that only run models, which need nothing but libcrema_deploy.
set(model ${WORK_DIR}/m.crema)
run(text ${BUILD_DIR}/dev/make_test_model ${model} ${WORK_DIR}/d.crema ${WORK_DIR}/s.crema
    ${WORK_DIR}/p.ppm ${WORK_DIR}/r.prototxt ${WORK_DIR}/r.caffemodel ${WORK_DIR})
set(examples ${SOURCE_DIR}/../../examples)
run(text ${CMAKE_COMMAND} -S ${examples} -B ${WORK_DIR}/examples -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_C_FLAGS=${FLAGS})
run(text ${CMAKE_COMMAND} --build ${WORK_DIR}/examples)
run(text ${WORK_DIR}/examples/example_run ${model})
expect("${text}" "^prob: 1 3\n")
run(flags pkg-config --cflags --libs crema_deploy)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(text ${CXX} -std=c++17 ${FLAGS} ${examples}/classify.cc -o ${WORK_DIR}/classify ${flags}
    -Wl,-rpath,${prefix}/${LIBDIR})
if(EXISTS ${prefix}/${LIBDIR}/libcrema_images.so)
  run(text ${WORK_DIR}/classify ${model} ${WORK_DIR}/p.ppm)
  expect("${text}" " bee\n")
endif()

# A plugin, built by each compiler that is there with the public header alone.
find_program(GXX g++)
find_program(CLANGXX clang++)
foreach(compiler ${GXX} ${CLANGXX})
  get_filename_component(name ${compiler} NAME)
  set(build ${WORK_DIR}/plugin-${name})
  run(text ${CMAKE_COMMAND} -S ${examples}/plugin -B ${build} -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_CXX_COMPILER=${compiler} "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
  run(text ${CMAKE_COMMAND} --build ${build})
  file(COPY ${examples}/plugin/ DESTINATION ${build}/run FILES_MATCHING PATTERN *.prototxt)
  set(plugin --plugin=${build}/softsign.so)
  run(text ${CMAKE_COMMAND} -E chdir ${build}/run ${prefix}/bin/crema train
      --solver=solver.prototxt ${plugin})
  expect("${text}" "trained to iteration 200")
  file(READ ${build}/run/softsign_run/run.json text)
  expect("${text}" "\"plugins\":.{\"name\":\"softsign\",\"version\":\"1.0\"")
  run(text ${CMAKE_COMMAND} -E chdir ${build}/run ${prefix}/bin/crema deploy export
      --model=deploy.prototxt --weights=softsign_iter_200.caffemodel --output=m.crema ${plugin})
  run(text ${prefix}/bin/crema deploy bench --model=${build}/run/m.crema --seconds=0.01 ${plugin})
endforeach()
# With the header of C.
run(text cc -std=c11 -Wall -Wextra -Wpedantic -Werror -shared -fPIC -I${prefix}/include
    ${SOURCE_DIR}/../plugins/interface.c -o ${WORK_DIR}/interface.so)
run(text ${prefix}/bin/crema summary --model=${net} --plugin=${WORK_DIR}/interface.so)

# The front command, through a link as a user might make one.
file(CREATE_LINK ${prefix}/bin/crema ${WORK_DIR}/crema SYMBOLIC)
run(text ${WORK_DIR}/crema help)
expect("${text}" "train .*evaluate .*replay .*deploy ")
run(text ${WORK_DIR}/crema train --help)
expect("${text}" "--solver|-solver")
# Modules are found from where the commands lie.
if(EXISTS ${prefix}/libexec/crema/make_digits)
  run(text ${WORK_DIR}/crema make_digits --count=2 --png=${WORK_DIR}/digits --png_count=1
      ${WORK_DIR}/digits_lmdb)
  expect("${text}" "Drew 2 digits")
endif()
execute_process(COMMAND ${WORK_DIR}/crema trian RESULT_VARIABLE status ERROR_VARIABLE text)
expect("${text}" "did you mean 'train'")
if(NOT status EQUAL 2)
  message(FATAL_ERROR "an unknown command ended with ${status}, expected 2")
endif()

# Caffe's programs find the commands, also from the place of Caffe's build.
file(CREATE_LINK ${prefix}/${LIBDIR}/crema/caffe-tools/build ${WORK_DIR}/build SYMBOLIC)
execute_process(COMMAND ${WORK_DIR}/build/tools/caffe.bin train --solver=none
                RESULT_VARIABLE status ERROR_VARIABLE text)
expect("${text}" "none: there is no such file")
if(NOT status EQUAL 134)
  message(FATAL_ERROR "a missing solver ended caffe with ${status}, expected 134")
endif()
run(text ${WORK_DIR}/build/examples/mnist/convert_mnist_data.bin --version)
expect("${text}" "^convert_mnist_data version 1.0.0")

# The unit starts the command of this prefix.
if(EXISTS ${prefix}/libexec/crema/serve)
  set(unit ${prefix}/lib/systemd/system/crema-serve.service)
  file(READ ${unit} text)
  expect("${text}" "ExecStart=${prefix}/bin/crema serve")
  expect("${text}" "RestartPreventExitStatus=2")
  list(APPEND files share/doc/crema/crema-serve.default)
endif()

foreach(file share/crema/proto/crema.proto include/crema/crema.pb.h include/crema/graph/layer.h
        share/doc/crema/serving.md share/man/man1/crema.1 share/man/man1/crema-train.1
        share/bash-completion/completions/crema share/zsh/site-functions/_crema
        share/fish/vendor_completions.d/crema.fish ${files})
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
